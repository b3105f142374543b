"""Shared by parsers of printed text: lines, framed tables, error texts."""
