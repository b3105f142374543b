"""Files and sockets in folders where other users may have put something; every file that we write is opened here.

docs/architecture.md, "What is written", lists who writes which file; tests/guarded/test_who_opens_files.py holds it.
"""
