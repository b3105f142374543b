"""The version of the distribution; read by the build, so it imports nothing."""

__version__ = "0.2.0"
