"""The contract suite: the rules for every parser, as checks that a plugin's author can call."""
