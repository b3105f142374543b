"""A fake NVML that tests control, with counted calls, and the project's reader on it."""
