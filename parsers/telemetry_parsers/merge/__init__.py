"""Reports of all sources become one picture of the node; node.py has the way through, the rest its steps."""
