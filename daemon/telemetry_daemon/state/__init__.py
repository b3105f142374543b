"""The state of the node: the store, the daemon's own counters, and the files that survive a restart."""
