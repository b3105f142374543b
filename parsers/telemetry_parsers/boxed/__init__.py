"""What the tools that look like nvidia-smi share: a framed table of cards, lists of keys, one way to answer; neutral of vendors."""
