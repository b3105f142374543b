"""Hypothesis strategies for the model's types, derived from their annotations."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

Strategy = st.SearchStrategy[Any]
numbers = st.floats(allow_nan=False, allow_infinity=False)
whole_numbers = st.integers(-(2**63), 2**63 - 1)


class Drawn:
    """Strategies for texts, numbers, and types with their own rules; lists have up to `most` members."""

    def __init__(self, by_type: Mapping[Any, Strategy], most: int = 3) -> None:
        self._known = {bool: st.booleans(), int: whole_numbers, float: numbers, NoneType: st.none(), **by_type}
        self._most = most

    def build(self, kind: type, **chosen: Strategy) -> Strategy:
        """Return instances of a dataclass; `chosen` are the fields with their own strategies."""
        hints = get_type_hints(kind)
        drawn = {field.name: self.of(hints[field.name]) for field in fields(kind) if field.name not in chosen}
        return st.builds(kind, **drawn, **chosen)

    def of(self, hint: Any) -> Strategy:
        """Return the strategy for an annotation."""
        if hint not in self._known:
            self._known[hint] = self._of(hint)
        return self._known[hint]

    def _of(self, hint: Any) -> Strategy:
        origin, inner = get_origin(hint), get_args(hint)
        if origin is Literal:
            return st.sampled_from(inner)
        if origin in (Union, UnionType):
            return st.one_of(*map(self.of, inner))
        if origin is Sequence or (origin is tuple and inner[-1] is ...):
            return st.lists(self.of(inner[0]), max_size=self._most).map(tuple)
        if origin is tuple:
            return st.tuples(*map(self.of, inner))
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return st.sampled_from(hint)
        assert is_dataclass(hint), hint
        return self.build(hint)
