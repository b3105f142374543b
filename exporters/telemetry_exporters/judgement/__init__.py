"""The verdict on a node and its devices: conditions with evidence and thresholds, and an overview for operators."""
