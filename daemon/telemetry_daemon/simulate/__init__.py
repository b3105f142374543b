"""A simulated node for `--demo`, tests and benchmarks: cards of any vendor behind the real poller and merge."""
