"""The client of a daemon, here or on another node: addresses, HTTP, documents, and the control socket."""
