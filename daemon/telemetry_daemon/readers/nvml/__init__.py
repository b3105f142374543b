"""NVIDIA's management library (NVML) through pynvml: asked call by call in a worker process, plain data out."""
