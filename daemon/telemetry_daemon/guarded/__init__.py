"""Opens files safely, even in folders that other users can change."""
