"""The contract suite: what every parser must be, as checks that a plugin author can call."""
