"""When and how it runs: every side effect lives here."""
