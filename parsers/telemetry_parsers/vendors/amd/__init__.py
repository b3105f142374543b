"""AMD's tools and driver files."""
