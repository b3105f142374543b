"""AMD: its tools, and the files of its driver, which Hygon's driver has, too."""
