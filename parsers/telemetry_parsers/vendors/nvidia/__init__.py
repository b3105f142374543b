"""NVIDIA's library NVML. The tool nvidia-smi is not run."""
