"""The contract suite: checks of parsers that plugin authors can call in their tests."""
