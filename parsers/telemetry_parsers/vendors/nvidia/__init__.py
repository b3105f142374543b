"""NVIDIA: NVML is asked, nvidia-smi is not run."""
