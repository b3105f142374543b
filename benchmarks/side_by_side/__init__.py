"""The parts that the benchmarks share: contestants measured in one run, their cost, and the table of results."""
