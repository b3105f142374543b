"""The web server: connections in server/, TLS and passwords in access/."""
