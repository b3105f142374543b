"""A query that cannot be answered."""

from __future__ import annotations

from telemetry_daemon.web.messages import Response
from telemetry_exporters.text import clean, cut

_MOST_SHOWN = 80


class BadQueryError(Exception):
    """A query that cannot be answered: the status, and a line that names what is wrong and what to do."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status

    def response(self) -> Response:
        """The refusal."""
        return Response(self.status, (f"{self}\n".encode(),), headers=(("X-Content-Type-Options", "nosniff"),))


def quoted(text: str) -> str:
    """What somebody gave, fit to be shown to them."""
    return f"'{cut(clean(text), _MOST_SHOWN)}'"
