"""The contract suite: rules for every parser, as checks that plugin authors can call."""
