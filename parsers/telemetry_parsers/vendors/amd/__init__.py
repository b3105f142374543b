"""AMD: its tools, and the files of its driver, which are also those of Hygon's."""
