"""Parses the output of rocm-smi and hy-smi."""
