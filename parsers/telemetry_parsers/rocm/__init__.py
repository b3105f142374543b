"""Parses the output of rocm-smi and hy-smi. Every shape is converted to a listing, whose keys are mapped to metrics."""
