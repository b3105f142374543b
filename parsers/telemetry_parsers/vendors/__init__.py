"""What each vendor's tools and libraries say: one folder a vendor, one module or package a source."""
