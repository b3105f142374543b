"""Intel's tool, xpu-smi."""
