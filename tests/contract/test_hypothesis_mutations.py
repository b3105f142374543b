"""Thousands of damaged captures, drawn and shrunk by hypothesis: no parser raises or says what nobody printed."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from captures_kit import own_cases, registered_parsers
from telemetry_parsers.contract_checks import parse_violations
from telemetry_parsers.contract_mutations import NASTY_DATA, NASTY_WORDS
from telemetry_parsers.model import Capture, Output, Plain

PARSERS = registered_parsers()
CAPTURES = {
    name: [capture for case in own_cases(name) for capture in case.captures(parser) if capture.outputs]
    for name, parser in PARSERS.items()
}
STATUSES = st.sampled_from([None, 0, 1, 127, -9])
PLAIN = st.recursive(
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
    """Data of which some pieces are others or gone."""
    if draw(st.integers(0, 7)) == 0:
        return draw(PLAIN)
    if isinstance(data, dict):
        kept = {key: draw(damaged_data(value)) for key, value in data.items() if draw(st.integers(0, 9))}
        return {**kept, **draw(st.dictionaries(st.text(max_size=12), PLAIN, max_size=1))}
    if isinstance(data, list):
        return [draw(damaged_data(value)) for value in data if draw(st.integers(0, 9))]
    return data


@st.composite
def damaged_captures(draw: st.DrawFn, name: str) -> Capture:
    """A capture of that tool with damaged outputs."""
    capture = draw(st.sampled_from(CAPTURES[name]))
    texts = sorted({output.text for one in CAPTURES[name] for output in one.outputs})
    outputs = tuple(
        Output(
            name=output.name,
            text=draw(damaged_texts(texts)) if any(texts) else draw(st.text(max_size=40)),
            stderr=draw(st.sampled_from(["", output.stderr, "Error: 42C\n"])),
            status=draw(STATUSES),
            data=None if output.data is None else draw(damaged_data(output.data)),
        )
        for output in capture.outputs
    )
    return Capture(capture.source, capture.poll, capture.request, outputs)


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_damage_never_breaks_the_contract(name: str) -> None:
    @settings(
        max_examples=2000,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(damaged_captures(name))
    def never_breaks(capture: Capture) -> None:
        assert parse_violations(PARSERS[name], capture) == []

    never_breaks()
