"""Recording rules and alerts."""
