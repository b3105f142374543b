"""NVIDIA's library."""
