"""The web server's sockets: listeners, connections with deadlines and limits, and HTTP on them."""
