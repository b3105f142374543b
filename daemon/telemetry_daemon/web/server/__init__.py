"""Connections: accepted, listened to under deadlines, answered, closed."""
