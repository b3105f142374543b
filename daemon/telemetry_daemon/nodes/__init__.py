"""The readings of daemons, asked as a client: of this machine over its local socket, of others over HTTP."""
