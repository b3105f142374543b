"""AMD's tools, and the files of AMD's and Hygon's drivers."""
