"""Child processes: started, read and ended; and a short-lived one that answers a single question."""
