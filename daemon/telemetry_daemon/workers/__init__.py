"""Worker processes, which run a plugin's code and ask libraries: the daemon's side and the inside."""
