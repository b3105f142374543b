"""The project's `dataclass` behaves like the standard library's, and creates no class twice."""

import copy
import dataclasses
import gc
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from telemetry_parsers import dataclass as ours

OPTIONS: tuple[dict[str, bool], ...] = (
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "slots": True, "kw_only": True, "repr": False},
    {"frozen": True},
    {"slots": True},
    {},
)


def made_by(dataclass: Callable[..., Any], options: Mapping[str, bool]) -> Any:
    @dataclass(**options)
    class Card:
        name: str
        secret: str = dataclasses.field(default="s", repr=False)
        parts: tuple[str, ...] = ()
        cached: int = dataclasses.field(default=0, compare=False)

    return Card


def attempt(action: Callable[[], object]) -> str:
    """Return the result or the error, without the address of an object."""
    try:
        return str(action()).partition(" at 0x")[0]
    except (AttributeError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_dataclass_behaves_like_the_standard_one(options):
    results = []
    for dataclass in (dataclasses.dataclass, ours.dataclass):
        kind = made_by(dataclass, options)
        card, same, other = kind(name="a", parts=("x",)), kind(name="a", parts=("x",), cached=1), kind(name="b")
        results.append(
            [
                repr(card).partition(" at 0x")[0],
                [item.name for item in dataclasses.fields(card)],
                card == same,
                card == other,
                card == made_by(dataclass, options)(name="a", parts=("x",)),
                attempt(lambda: hash(card) == hash(same)),  # noqa: B023  # called at once
                attempt(lambda: setattr(card, "name", "c")),  # noqa: B023  # called at once
                attempt(lambda: delattr(card, "name")),  # noqa: B023  # called at once
                dataclasses.replace(other, parts=("y",)).parts,
                copy.copy(other).name,
            ]
        )
    assert results[0] == results[1]


@ours.dataclass(frozen=True, slots=True)
class Named:
    """A class with its own `__repr__`, in a module where pickle finds it."""

    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"


def test_an_own_repr_stays_and_pickles_are_read():
    assert repr(pickle.loads(pickle.dumps(Named("a")))) == "<a>"


def test_no_class_is_kept_twice():
    def classes() -> int:
        gc.collect()
        return sum(kind.__name__ == "Card" for kind in object.__subclasses__())

    before = classes()
    kinds = [made_by(ours.dataclass, {"frozen": True, "slots": True}) for _ in range(3)]
    assert classes() == before + len(kinds)


def test_an_init_is_compiled_for_the_first_object():
    @ours.dataclass(frozen=True, slots=True)
    class Poll:
        name: str
        calls: list[str] = dataclasses.field(default_factory=list)
        length: int = dataclasses.field(init=False, default=7)

        def __post_init__(self) -> None:
            object.__setattr__(self, "length", len(self.name))

    first = Poll.__init__
    assert Poll("a").calls is not Poll("a").calls
    assert Poll.__init__ is not first
    assert Poll("abc", ["x"]).length == 3
    assert attempt(Poll) == f"TypeError: {Poll.__qualname__}.__init__() missing 1 required positional argument: 'name'"


def test_a_derived_class_must_be_frozen_like_its_base():
    base = made_by(ours.dataclass, {"frozen": True, "slots": True})
    for dataclass in (ours.dataclass, dataclasses.dataclass):
        derived = dataclass(frozen=True)(type("Derived", (base,), {}))
        assert derived("a").name == "a"
        with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
            dataclass()(type("Mutable", (base,), {}))


def test_an_own_init_stays():
    @ours.dataclass(frozen=True)
    class Card:
        name: str

        def __init__(self) -> None:
            object.__setattr__(self, "name", "own")

    assert Card().name == "own"
