"""Helpers for parsers of printed text: lines, framed tables, JSON documents, error texts."""
