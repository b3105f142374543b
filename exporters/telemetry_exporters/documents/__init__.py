"""Output for programs: JSON, CSV, events, check results and Markdown."""
