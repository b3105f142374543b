"""What is known now and what is remembered: the store, counters of our own, the file of devices."""
