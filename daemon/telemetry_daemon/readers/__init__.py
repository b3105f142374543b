"""The code that runs tools and reads files and libraries; each reader returns a Capture."""
