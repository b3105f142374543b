"""Calls NVIDIA's management library (NVML) through pynvml in a worker process and returns plain data."""
