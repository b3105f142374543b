"""The state of the node: the store, counters derived from readings, and the files that survive a restart."""
