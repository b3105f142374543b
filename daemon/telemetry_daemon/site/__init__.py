"""What the web side answers: its routes, the page, the ready metrics."""
