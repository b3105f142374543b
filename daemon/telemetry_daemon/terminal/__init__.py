"""What goes to the terminal or the journal: log lines, standard streams, how a command ends."""
