"""Reads Moore Threads' management library through the vendor's Python binding, in a worker process."""
