"""Which tool printed an output: two tools bear one name, and each parser leaves the other's outputs alone."""

from __future__ import annotations

import pytest

from kits.captures import own_cases, registered_parsers

PARSERS = registered_parsers()


@pytest.mark.parametrize(
    ("source", "other", "known"),
    [
        ("rocm-smi", "hy-smi", set()),
        ("xpu-smi", "xpu-smi-kunlun", {"table", "query", "places", "markup"}),
        ("xpu-smi-kunlun", "xpu-smi", {"table-2.0", "discovery", "dump", "stats", "ps"}),
    ],
)
def test_an_output_of_the_other_tool_of_that_name_is_not_read(source: str, other: str, known: set[str]) -> None:
    parser = PARSERS[source]
    outcomes = {case.name: {parser.parse(one).outcome for one in case.captures(parser)} for case in own_cases(other)}
    assert {name for name, found in outcomes.items() if "ok" in found} == set()
    assert {name: outcomes[name] for name in known} == {name: {"not_mine"} for name in known}
