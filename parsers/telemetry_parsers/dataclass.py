"""`dataclass` of the standard library in half the memory: the daemon has more than 200 of these classes.

With `slots`, the standard library makes each class twice. The two methods that it generates for a frozen class refer to
the first and keep it; all frozen classes share two methods here. All classes share one `__repr__`, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["dataclass", "field", "fields", "is_dataclass", "replace"]


def _lean_dataclass(**options: bool) -> Callable[[type], type]:
    """Return a decorator that takes the options of `dataclasses.dataclass`."""

    def decorate(plain: type) -> type:
        keeps_repr = "__repr__" in vars(plain) or not options.get("repr", True)
        made: Any = dataclasses.dataclass(**{**options, "repr": False})(plain)
        if not keeps_repr:
            made.__repr__ = _repr
        if options.get("frozen"):
            made.__setattr__, made.__delattr__ = _refuse_to_set, _refuse_to_delete
        if getattr(vars(made).get("__weakref__"), "__objclass__", made) is not made:
            del made.__weakref__  # before Python 3.11.3 (gh-102069) it belongs to the first class and keeps it
        return made  # type: ignore[no-any-return]  # the class, to which mypy would not let methods be assigned

    return decorate


def _repr(self: Any) -> str:
    values = ", ".join(f"{item.name}={getattr(self, item.name)!r}" for item in fields(self) if item.repr)
    return f"{type(self).__qualname__}({values})"


def _refuse_to_set(_self: object, name: str, _value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _lean_dataclass
