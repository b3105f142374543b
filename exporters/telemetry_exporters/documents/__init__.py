"""What programs read: the node as JSON, CSV, events and check results, and the catalogue as Markdown."""
