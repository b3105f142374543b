"""What a library reader is: the part of a plugin that asks a vendor's library, in a worker process of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:  # every worker that calls a library imports this module; the model would cost it 2.6 MiB
    from telemetry_parsers.model import Plain, Reason, State


class ReaderRefusal(Exception):  # noqa: N818  # a refusal is an answer, not an error of the reader
    """Why the library returns nothing: a state, with `failed` a reason (`driver_gone`, `no_permission`, `library_mismatch`), and a text."""

    def __init__(self, state: State, reason: Reason | None, text: str) -> None:
        super().__init__(text)
        self.state = state
        self.reason = reason
        self.text = text


class CallError(NamedTuple):
    """What a reader returns for a call that failed while others worked: the library's error number and text."""

    status: int
    text: str


class LibraryReader(Protocol):
    """Reads one library. All methods run in one thread of the worker. An exception costs this poll only; then the reader is opened again."""

    def open(self) -> None:
        """Load and initialise the library, before the first read; ReaderRefusal says why it can't."""
        ...

    def read(self, calls: Sequence[str]) -> Mapping[str, Plain | CallError]:
        """Return the result of each call, as JSON-compatible data without NaN; without calls, everything that the reader can read."""
        ...

    def close(self) -> None:
        """Release the library and the devices. It is safe to call after a failed open."""
        ...
