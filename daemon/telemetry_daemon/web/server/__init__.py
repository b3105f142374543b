"""Connections: accepted, read under deadlines, answered, closed."""
