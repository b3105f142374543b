"""Replaces `typing` for annotations, because importing `typing` costs 0.5 MiB in each worker."""

TYPE_CHECKING = False

if TYPE_CHECKING:  # type checkers assume True
    from typing import Any, BinaryIO, Protocol
else:
    Any = BinaryIO = Protocol = object

__all__ = ["TYPE_CHECKING", "Any", "BinaryIO", "Protocol"]
