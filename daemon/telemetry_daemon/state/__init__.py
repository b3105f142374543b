"""The state of the node: the store, counters, and the files that survive a restart."""
