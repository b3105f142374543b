"""Parses output in the style of nvidia-smi: framed tables, lists of keys, XML, and `--query-gpu`."""
