"""What a profiler's file says, and what formats share to find it: tables, traces, intervals, and the kinds of kernels."""
