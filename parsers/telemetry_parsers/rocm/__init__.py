"""Parses the output of rocm-smi and hy-smi: JSON, CSV, sections and tables become one listing. `keys.py` says which metric each key gives."""
