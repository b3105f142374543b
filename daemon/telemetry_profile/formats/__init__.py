"""The formats of profilers, a module for each; they never import each other."""
