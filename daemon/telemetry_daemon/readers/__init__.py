"""The only code that touches tools, files and libraries; each reader returns a Capture."""
