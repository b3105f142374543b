"""The web server: connections in server/, TLS and passwords in access/, shared types in this package."""
