"""Output for programs: the node as JSON, CSV, event stream and check results; the metric catalogue as Markdown."""
