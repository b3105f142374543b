"""Huawei Ascend: its tools, and the rank tables of its jobs."""
