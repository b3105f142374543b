"""Output to the terminal or the journal: log lines, standard streams, exit statuses."""
