"""A request and a response, as they pass between the connection code and the site."""

from __future__ import annotations

import http
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Request:
    """A GET or HEAD whose head was read whole; header names are lower case, `authority` is the host (and port) asked for."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    authority: str = ""


@dataclass(frozen=True, slots=True)
class Response:
    """A ready answer; the body may be given in parts, so that cached bytes are never copied."""

    status: int
    body: tuple[bytes, ...]
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def phrase(self) -> str:
        """The words that HTTP has for the status, such as `Not Found`; empty where it has none."""
        try:
            return http.HTTPStatus(self.status).phrase
        except ValueError:  # HTTP allows a status without words
            return ""


# The site: it answers at once and never waits for a tool.
Handler = Callable[[Request], Response]


def status_page(status: int, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    """A response that says its status in words and nothing else."""
    return Response(status, (f"{http.HTTPStatus(status).phrase}\n".encode(),), headers=headers)
