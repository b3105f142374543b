"""Errors in serving that an operator can fix: one line that names the thing and the remedy."""

from __future__ import annotations


class WebError(Exception):
    """The server cannot serve as its settings say."""


class ListenError(WebError):
    """The system does not let the server listen there now; later it may."""


class WebConfigError(WebError):
    """The web configuration file, or a file that it names, cannot be used."""
