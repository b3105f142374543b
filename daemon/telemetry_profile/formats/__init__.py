"""The file formats of profilers."""
