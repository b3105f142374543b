"""Shared test support: fake tools and libraries, nodes, servers, clocks and hostile clients."""
