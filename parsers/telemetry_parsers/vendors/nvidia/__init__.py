"""NVIDIA: NVML is called, nvidia-smi is not run."""
