"""What rocm-smi and hy-smi have in common: their JSON, CSV, sections and tables as one listing, and what its keys mean."""
