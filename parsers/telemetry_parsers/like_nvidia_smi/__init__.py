"""Parses tools that print like nvidia-smi: framed tables, lists of keys, XML, `--query-gpu`. A new tool is a module of tables in `vendors/`."""
