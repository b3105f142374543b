"""The fuzzer itself: every target runs, and what it is there for is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import strategies as st

from fuzz.damage import DAMAGES, damaged
from fuzz.run import fuzz, fuzz_for
from fuzz.targets import SITE, Target, targets
from kits.web_server import running_server

TABLE = "GPU  Temp\n0    41C\n1    43C\n"


@pytest.mark.parametrize("examples", [12, pytest.param(500, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_every_target_holds_for_a_few_examples(tmp_path: Path, examples: int) -> None:
    """`make fuzz` gives them thousands; here the seed is the same every time."""
    with running_server(SITE.respond) as server:
        found = {target.name: fuzz(target, 1, examples) for target in targets(tmp_path, server.port)}
    assert len(found) > 20
    assert {name: finding for name, finding in found.items() if finding} == {}


def _planted(text: str) -> None:
    lines = [line.split() for line in text.splitlines() if line[:1].isdigit()]
    assert all(float(words[1].rstrip("C")) < 1000 for words in lines)


@pytest.mark.parametrize(
    ("check", "error"),
    [
        pytest.param(_planted, "Error", id="a parser that trusts its table"),
        pytest.param(lambda text: text.encode("ascii"), "UnicodeEncodeError", id="one that knows ASCII only"),
        pytest.param(lambda text: [][len(text) > 10_000], "IndexError", id="one with a buffer"),
    ],
)
def test_a_planted_mistake_is_found_and_made_small(check: object, error: str) -> None:
    outcome = fuzz_for(Target("planted", damaged([TABLE]), check), 1, 120.0)  # type: ignore[arg-type]  # any callable
    assert error in outcome.finding
    assert "seed" in outcome.finding


def test_an_example_is_the_same_for_the_same_seed() -> None:
    seen: list[list[object]] = []
    for _ in range(2):
        given: list[object] = []
        fuzz(Target("kept", damaged([TABLE, TABLE * 2]), given.append), 5, 30)
        seen.append(given)
    assert seen[0] == seen[1]
    assert len(set(seen[0])) > 15


def test_each_damage_takes_any_text() -> None:
    strategy = st.tuples(st.text(), st.randoms(use_true_random=False))
    for damage in DAMAGES:
        target = Target("damage", strategy, lambda given, damage=damage: damage(*given, [given[0], ""]))  # type: ignore[misc]  # bound now
        assert fuzz(target, 1, 40) == "", damage.__name__
