"""The HTTP site of the daemon: routes, the live page, cached metrics and the event stream."""
