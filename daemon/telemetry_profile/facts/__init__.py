"""Functions that several formats use: tables, traces, printed numbers, intervals of devices, and the kinds of kernels."""
