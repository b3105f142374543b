"""What tools share that print like nvidia-smi: a framed table of cards, lists of keys, XML, rows of `--query-gpu`.

Nothing here is of one vendor. A new tool of this kind is a module of tables in `vendors/`, such as `iluvatar/ixsmi.py`.
"""
