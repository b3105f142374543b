"""Opens every written file, and files and sockets in folders where other users may create files. docs/architecture.md,
"What is written", lists who writes which file; tests/guarded/test_who_opens_files.py checks the list.
"""
