"""Framed tables with a border all round, whose records are separated by rules."""

import re

import pytest

from telemetry_parsers.text.framed import Table, TableShape, read_table
from telemetry_parsers.text.lines import lines

_NUMBER = re.compile(r"(?:[0-9]+|NA)\Z")
SHAPE = TableShape(
    headings=frozenset({"id", "name", "load", "chip", "bus", "temp", "heat"}),
    patterns={
        "id": re.compile(r"[0-9]+\Z"),
        "chip": re.compile(r"[0-9]+\Z"),
        "bus": re.compile(r"[0-9a-f:.]+\Z"),
        **dict.fromkeys(("load", "temp", "heat"), _NUMBER),
    },
    first_heading="id",
)
HEAD = """\
+------------+------+
| ID   Name  | Load |
| Chip  Bus  | Temp  Heat |
+============+======+
"""
CARD = """\
| 3    Big   | 7    |
| 0  00:1.0  | 40  1 |
+============+======+
"""


def table(text: str) -> Table:
    return read_table(lines(text), SHAPE)


def values(text: str) -> list[dict[str, str]]:
    return [{name: value.text for name, value in record.values.items()} for record in table(text).records]


WHOLE = {"id": "3", "name": "Big", "load": "7", "chip": "0", "bus": "00:1.0", "temp": "40", "heat": "1"}


@pytest.mark.parametrize("between", ["", "+------------+------+\n", "+-------------------+\n", "\n"])
def test_records_begin_below_a_rule_or_when_the_one_before_is_whole(between: str) -> None:
    other = CARD.replace("| 3 ", "| 4 ")
    text = HEAD + "".join(CARD.splitlines(keepends=True)[:2]) + between + other
    assert values(text) == [WHOLE, {**WHOLE, "id": "4"}]


def test_rule_of_equal_signs_ends_the_table() -> None:
    assert table(HEAD + CARD).is_complete
    assert not table(HEAD + CARD.replace("=", "-")).is_complete
    assert not table(HEAD + CARD + CARD.splitlines(keepends=True)[0]).is_complete
    assert table(HEAD + CARD + CARD).is_complete
    assert len(table(HEAD + CARD + CARD).records) == 2


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("40  1", {"temp": "40", "heat": "1"}),
        ("40 1", {"temp": "40", "heat": "1"}),
        ("NA  1", {"temp": "NA", "heat": "1"}),
        ("1", None),
        ("40  1  2", None),
        ("40  hot", None),
        ("00:2.0  1", None),
    ],
)
def test_a_cell_is_read_only_with_a_fitting_value_for_each_heading(cell: str, expected: dict[str, str] | None) -> None:
    (record,) = table(HEAD + CARD.replace("40  1", cell)).records
    found = {name: value.text for name, value in record.values.items() if name in ("temp", "heat")}
    assert found == (expected or {})
    assert bool(record.misfits) == (expected is None)


def test_a_lost_line_leaves_its_values_out() -> None:
    rows = CARD.splitlines(keepends=True)
    (record,) = table(HEAD + rows[0] + rows[2]).records
    assert sorted(record.values) == ["id", "load", "name"]


@pytest.mark.parametrize(
    ("row", "kept"),
    [
        ("| 3    Big   | 7", {"id": "3", "name": "Big"}),
        ("| 3    Big   |", {"id": "3", "name": "Big"}),
        ("| 0  00:1.0  | 40  1", {"chip": "0", "bus": "00:1.0"}),
    ],
)
def test_a_row_without_its_last_bar_may_be_torn_within_its_last_word(row: str, kept: dict[str, str]) -> None:
    lost = next(line for line in CARD.split("\n") if line.startswith(row))
    (record,) = table(HEAD + CARD.replace(lost, row)).records
    others = {name: text for name, text in WHOLE.items() if name not in ("id", "name", "load")}
    others = others if "Big" in row else {name: WHOLE[name] for name in ("id", "name", "load")}
    assert {name: value.text for name, value in record.values.items()} == {**kept, **others}
    assert [line.text for line in record.misfits] == [row]


def test_the_values_below_a_torn_heading_are_not_read() -> None:
    (record,) = table(HEAD.replace("| Temp  Heat |", "| Temp  H") + CARD).records
    assert set(record.values) == {"id", "name", "load", "chip", "bus"}
    assert len(record.misfits) == 1
