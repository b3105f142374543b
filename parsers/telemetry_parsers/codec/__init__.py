"""Plain JSON forms of captures, reports and parsers, and the strict way back."""
