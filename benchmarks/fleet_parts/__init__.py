"""The parts of benchmarks/fleet.py: simulated nodes, servers that scrape them, what is measured and what follows."""
