"""The web server's sockets: listeners, connections, and HTTP on them."""
