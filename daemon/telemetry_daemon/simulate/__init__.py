"""A simulated node with cards of any vendor."""
