"""What is to be said of a node and its devices: conditions with their evidence and limits, and what an operator sees first."""
