"""What is known now and what is remembered: the store, our own counters, the file of known devices."""
