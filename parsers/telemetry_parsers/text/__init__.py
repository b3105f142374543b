"""What parsers of printed text share: lines, framed tables, error texts."""
