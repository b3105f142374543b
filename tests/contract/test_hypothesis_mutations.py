"""Thousands of damaged captures, drawn and shrunk by hypothesis: no parser raises or says what nobody printed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kits.captures import own_cases, registered_parsers
from telemetry_parsers.checks.mutations import NASTY_DATA, NASTY_WORDS
from telemetry_parsers.checks.suite import parse_violations
from telemetry_parsers.model import Capture, Plain

PARSERS = registered_parsers()
CAPTURES = {
    name: [capture for case in own_cases(name) for capture in case.captures(parser) if capture.outputs]
    for name, parser in PARSERS.items()
}
TEXTS = {
    name: sorted({one.text for capture in captures for one in capture.outputs}) for name, captures in CAPTURES.items()
}
STATUSES = st.sampled_from([None, 0, 1, 127, -9])
PIECES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.sampled_from(NASTY_DATA)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def damaged_texts(draw: st.DrawFn, texts: list[str]) -> str:
    """A text with pieces cut out, put in, doubled and moved."""
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 60)))
        piece = draw(st.one_of(st.sampled_from(NASTY_WORDS), st.text(max_size=12), st.just(text[start:end] * 2)))
        text = text[:start] + piece + text[end:]
    if draw(st.booleans()):
        kept = text.split("\n")
        text = "\n".join(draw(st.permutations(kept)) if len(kept) < 40 else kept[:: draw(st.sampled_from([1, 2, -1]))])
    return text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text


@st.composite
def damaged_data(draw: st.DrawFn, data: Plain) -> Plain:
    """Data of which a piece is another, gone or new."""
    if not isinstance(data, dict) or draw(st.integers(0, 7)) == 0:
        return draw(PIECES)
    key = draw(st.one_of(st.sampled_from(sorted(data)), st.text(max_size=12))) if data else draw(st.text(max_size=12))
    kept = {name: value for name, value in data.items() if name != key}
    return kept if draw(st.booleans()) else {**kept, key: draw(damaged_data(data.get(key)))}


@st.composite
def damaged_captures(draw: st.DrawFn, name: str) -> Capture:
    """A capture of that tool of which one output is damaged, or gone."""
    capture = draw(st.sampled_from(CAPTURES[name]))
    position = draw(st.integers(0, len(capture.outputs) - 1))
    output = replace(capture.outputs[position], status=draw(STATUSES))
    if output.data is not None:
        output = replace(output, data=draw(damaged_data(output.data)))
    else:
        stderr = draw(st.sampled_from(["", output.stderr, "Error: 42C\n"]))
        output = replace(output, text=draw(damaged_texts(TEXTS[name])), stderr=stderr)
    changed = (output,) if draw(st.integers(0, 9)) else ()
    return replace(capture, outputs=(*capture.outputs[:position], *changed, *capture.outputs[position + 1 :]))


@pytest.mark.parametrize("examples", [100, pytest.param(1000, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", sorted(PARSERS))
def test_damage_never_breaks_the_contract(name: str, examples: int) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(damaged_captures(name))
    def never_breaks(capture: Capture) -> None:
        assert parse_violations(PARSERS[name], capture) == []

    never_breaks()
