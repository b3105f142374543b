"""What was made of a node's newest snapshot, so that frames of the same snapshot need not make it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

_T = TypeVar("_T")
_G = TypeVar("_G")


class Memory:
    """Holds results for the newest thing that they were made of; things are compared by identity, as they never change."""

    __slots__ = ("_results",)

    def __init__(self) -> None:
        self._results: dict[Callable[[Any], object], tuple[object, object]] = {}

    def of(self, make: Callable[[_G], _T], thing: _G) -> _T:
        """What `make` makes of the thing; it is called once for each thing."""
        found = self._results.get(make)
        if found is None or found[0] is not thing:
            found = self._results[make] = (thing, make(thing))
        return cast("_T", found[1])
