"""The conditions of devices and sources with their thresholds, the checkup of a node, and the overview for operators."""
