"""The parts of benchmarks/fleet.py: simulated nodes, the servers that scrape them, measurements and extrapolations."""
