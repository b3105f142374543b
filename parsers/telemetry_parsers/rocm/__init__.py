"""What rocm-smi and hy-smi have in common: their JSON, CSV, sections and tables as one listing.

`keys.py` says which metric each key gives.
"""
