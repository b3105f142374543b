"""How a command asks a daemon, here or on another node: addresses, HTTP and documents as a client; the control socket and what it answers."""
