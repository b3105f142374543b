"""The protocol of library readers, which call a vendor's library in a worker process."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence

from telemetry_parsers.typing_names import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # at run time, `model` would use 2.6 MiB of memory in each worker
    from telemetry_parsers.model import Plain, Reason, State


class ReaderRefusal(Exception):  # noqa: N818  # a refusal is an answer, not an error of the reader
    """Raised if the library cannot be read. Only the state `failed` has a reason, such as `no_permission`."""

    def __init__(self, state: State, reason: Reason | None, text: str) -> None:
        super().__init__(text)
        self.state = state
        self.reason = reason
        self.text = text


class CallError(namedtuple("CallError", ("status", "text"))):  # noqa: PYI024  # typing.NamedTuple would import typing
    """The result of a failed call: the library's error number and text."""

    __slots__ = ()
    status: int
    text: str


class LibraryReader(Protocol):
    """Reads one library. All methods run in one thread of a worker. After an exception, the reader is opened again."""

    def open(self) -> None:
        """Load and initialise the library before the first read. Raise ReaderRefusal if this is impossible."""

    def read(self, calls: Sequence[str]) -> Mapping[str, Plain | CallError]:
        """Return the results of these calls as JSON-compatible data without NaN. Without calls, return all data."""

    def close(self) -> None:
        """Release the library and the devices. This is also called after a failed `open`."""
