"""Which rank of a job runs on which chip of this node."""
