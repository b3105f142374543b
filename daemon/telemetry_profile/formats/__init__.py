"""The file formats of profilers. Their modules do not import each other."""
