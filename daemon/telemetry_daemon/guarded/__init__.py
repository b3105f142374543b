"""Opens every written file, and files in folders where others may create files; tests/guarded/test_who_opens_files.py lists the exceptions."""
