"""Reads Moore Threads' management library through the vendor's own binding, in a worker process of its own."""
