"""Converts captures, reports, parsers and messages to plain JSON, and decodes JSON strictly."""
