"""Several outputs of one tool become one report."""
