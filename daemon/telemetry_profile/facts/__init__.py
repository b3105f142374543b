"""What formats share to find facts: tables, traces, printed numbers, intervals on devices, and the kinds of kernels."""
