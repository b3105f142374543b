"""A `dataclass` decorator that needs half the memory of the standard one. The daemon has more than 200 dataclasses.

With `slots`, the standard library creates each class twice, and the methods of a frozen class refer to the first class,
which therefore stays in memory. The standard library also compiles methods such as `__repr__` and `__eq__` for each class.
Here, all classes share these methods.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, is_dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["dataclass", "field", "fields", "is_dataclass", "replace"]


def _lean_dataclass(**options: bool) -> Callable[[type], type]:
    def decorate(original_class: type) -> type:
        own_names = vars(original_class)
        new_class: Any = dataclasses.dataclass(**{**options, "repr": False, "eq": False})(original_class)
        if options.get("repr", True) and "__repr__" not in own_names:
            new_class.__repr__ = _repr
        if options.get("eq", True) and "__eq__" not in own_names:
            compared = (item.name for item in fields(new_class) if item.compare)
            new_class.compared_values = attrgetter("__class__", *compared)
            new_class.__eq__, new_class.__hash__ = _is_equal, _hash if options.get("frozen") else None
        if options.get("frozen"):
            new_class.__setattr__, new_class.__delattr__ = _refuse_to_set, _refuse_to_delete
        if getattr(vars(new_class).get("__weakref__"), "__objclass__", new_class) is not new_class:
            del new_class.__weakref__  # refers to the first class before Python 3.11.3 (gh-102069)
        return new_class  # type: ignore[no-any-return]  # Any, because mypy rejects assignments to methods

    return decorate


def _repr(self: Any) -> str:
    values = ", ".join(f"{item.name}={getattr(self, item.name)!r}" for item in fields(self) if item.repr)
    return f"{type(self).__qualname__}({values})"


def _is_equal(self: Any, other: Any) -> object:
    if other.__class__ is not self.__class__:
        return NotImplemented
    values = self.compared_values
    return values(self) == values(other)


def _hash(self: Any) -> int:
    return hash(self.compared_values(self))


def _refuse_to_set(_self: object, name: str, _value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _lean_dataclass
