"""What the benchmarks have in common: contestants in one run, what they cost, and the table of it."""
