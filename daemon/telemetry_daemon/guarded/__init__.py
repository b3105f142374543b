"""Opens files to write, and files in folders of other users."""
