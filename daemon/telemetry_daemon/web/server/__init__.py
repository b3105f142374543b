"""The listeners and connections of the web server."""
