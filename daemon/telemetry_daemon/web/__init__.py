"""HTTP serving: connections, TLS, authentication, routes."""
