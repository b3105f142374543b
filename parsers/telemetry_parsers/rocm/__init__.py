"""Parses the output of rocm-smi and hy-smi: all shapes become a listing, and `keys.py` maps its keys to metrics."""
