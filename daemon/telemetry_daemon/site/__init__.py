"""The site: its routes, the page, and the cached metrics."""
