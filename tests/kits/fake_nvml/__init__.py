"""A fake NVML: the library itself, steered and counted; a process that asks it, and our reader on it."""
