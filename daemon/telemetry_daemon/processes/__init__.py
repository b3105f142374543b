"""Child processes: tools, short-lived processes for one question, and workers, which run plugins and read drivers' files."""
