"""Parses tools that print like nvidia-smi: a framed table of cards, lists of keys, XML, rows of `--query-gpu`.

This package has no vendor knowledge. A new tool of this kind is a module of tables in `vendors/`, such as `iluvatar/ixsmi.py`.
"""
