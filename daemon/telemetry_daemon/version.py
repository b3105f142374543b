"""The version of the distribution. The build reads this module, so it imports nothing."""

__version__ = "0.2.0"
