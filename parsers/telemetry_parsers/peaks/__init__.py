"""What a card can do at best: a table of models with their sources, what the configuration adds, and the share of a partition."""
