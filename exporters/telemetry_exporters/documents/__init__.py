"""Output for programs: the node as JSON, CSV, events and check results, and the catalogue as Markdown."""
