"""Opens files to write, and files in folders of other users. tests/guarded/test_who_opens_files.py lists the exceptions."""
