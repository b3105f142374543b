"""Opens files for writing, and files in folders that other users can change."""
