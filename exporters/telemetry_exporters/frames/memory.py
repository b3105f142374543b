"""What was made of a node's newest snapshot, so that frames of the same snapshot need not make it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

_T = TypeVar("_T")


class Memory:
    """Holds results for the newest things that they were made of. Things never change, and are compared by identity, numbers by value."""

    __slots__ = ("_results",)

    def __init__(self) -> None:
        self._results: dict[Callable[..., object], tuple[tuple[object, ...], object]] = {}

    def of(self, make: Callable[..., _T], *things: object) -> _T:
        """What `make` makes of these things; it is called once for the same ones."""
        found = self._results.get(make)
        if found is None or not all(map(_is_same, found[0], things)):
            found = self._results[make] = (things, make(*things))
        return cast("_T", found[1])


def _is_same(one: object, other: object) -> bool:
    return one is other or (isinstance(one, int) and one == other)
