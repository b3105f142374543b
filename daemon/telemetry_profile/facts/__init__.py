"""Helpers that several formats share: CSV tables, traces, printed numbers, device timelines and kinds of kernels."""
