"""AMD's tools, and the files of AMD's driver, which Hygon's driver also has."""
