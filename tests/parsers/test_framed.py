"""Framed tables are read by headings and separators, whatever the columns' positions and whatever is missing."""

import re

import pytest

from telemetry_parsers.text.framed import Table, TableShape, is_rule, read_table
from telemetry_parsers.text.lines import lines

SHAPE = TableShape(
    headings=frozenset({"id", "name", "bus", "load", "mem", "kind", "perf", "temp", "mode"}),
    patterns={
        "id": re.compile(r"[0-9]+\Z"),
        "bus": re.compile(r"\S+\Z"),
        "load": re.compile(r"(?:[0-9]+%|N/A)\Z"),
        "mem": re.compile(r"[0-9]+M\((?:[0-9]+M\))?\Z"),
        "perf": re.compile(r"P[0-9]\Z"),
        "temp": re.compile(r"(?:[0-9]+C|N/A)\Z"),
    },
    first_heading="id",
)
HEAD = """\
ID   Name      |Bus     |Load  Mem
     Kind Perf |        |Temp  Mode
+-------------------------------+
"""
CARD = """\
0    Big Card  |00:1.0  |7%    12M(34M)
     Physical   P2 |    |40C   on, both
"""


def table(text: str) -> Table:
    return read_table(lines(text), SHAPE)


def values(text: str) -> list[dict[str, str]]:
    return [{name: value.text for name, value in record.values.items()} for record in table(text).records]


WHOLE = {
    "id": "0",
    "name": "Big Card",
    "bus": "00:1.0",
    "load": "7%",
    "mem": "12M(34M)",
    "kind": "Physical",
    "perf": "P2",
    "temp": "40C",
    "mode": "on, both",
}


def test_values_are_read_under_their_headings() -> None:
    found = table(HEAD + CARD + "=====\n")
    assert [{name: value.text for name, value in record.values.items()} for record in found.records] == [WHOLE]
    assert (found.has_headings, found.is_complete, found.unread_lines, found.unknown_headings) == (True, True, (), ())
    assert found.records[0].values["temp"].line.number == 5


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("runs of blanks lost", "\n".join(" ".join(line.split()) for line in (HEAD + CARD).splitlines()) + "\n"),
        ("blank lines between", (HEAD + CARD).replace("\n", "\n\n")),
        ("columns shifted", (HEAD + CARD).replace("Big Card  |", "Big Card            |").replace("|7%", "|      7%")),
        ("tabs", (HEAD + CARD).replace("   ", "\t")),
        ("rule of equal signs", (HEAD + CARD).replace("+--", "+==")),
        ("headings twice", HEAD + HEAD + CARD),
    ],
)
def test_layout_does_not_matter(change: str, text: str) -> None:
    assert values(text) == [WHOLE], change


def test_every_record_begins_where_its_first_cell_does() -> None:
    second = CARD.replace("0    Big", "1    Big").replace("40C", "51C")
    for between in ("", "+-----+\n", HEAD):
        found = values(HEAD + CARD + between + second)
        assert [(record["id"], record["temp"]) for record in found] == [("0", "40C"), ("1", "51C")]


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("     Physical   P2 |    |\n", {"temp", "mode"}),
        ("     Physical   P2 |\n", {"temp", "mode"}),
        ("     |    |40C   on, both\n", {"kind", "perf"}),
    ],
)
def test_missing_cells_are_missing_and_the_rest_stays(line: str, missing: set[str]) -> None:
    text = HEAD + CARD.splitlines(keepends=True)[0] + line
    assert values(text) == [{name: text for name, text in WHOLE.items() if name not in missing}]


def test_every_end_of_the_text_gives_whole_values_or_none() -> None:
    text = HEAD + CARD
    for end in range(len(text)):
        for found in values(text[:end]):
            for name, value in found.items():
                whole = WHOLE[name]
                assert value == whole or (name == "mem" and value == "12M("), (end, name, value)


def test_unknown_heading_is_named_and_its_neighbours_are_read() -> None:
    text = (HEAD + CARD).replace("Load  Mem", "Load  Heat Sum  Mem").replace("7%    12M", "7%    99%  12M")
    found = table(text)
    assert found.unknown_headings == ("heat sum",)
    cells = found.records[0].values
    assert (cells["load"].text, cells["heat sum"].text, cells["mem"].text) == ("7%", "99%", "12M(34M)")


def test_cell_with_an_unknown_heading_and_another_number_of_values_is_not_guessed() -> None:
    text = (HEAD + CARD).replace("Load  Mem", "Load  Heat Sum  Mem")
    found = table(text)
    assert not {"load", "mem"} & set(found.records[0].values)
    assert [line.number for line in found.records[0].misfits] == [4]


def test_unknown_heading_in_a_collapsed_cell_hides_that_cell_only() -> None:
    text = "ID Name |Bus |Memory Temp Temp\n+---+\n0 Big Card |00:1.0 |40C 50C\n"
    found = table(text)
    assert {name: value.text for name, value in found.records[0].values.items()} == {
        "id": "0",
        "name": "Big Card",
        "bus": "00:1.0",
        "memory temp temp": "40C 50C",
    }


def test_a_line_with_too_many_cells_is_not_read() -> None:
    found = table(HEAD + "0    Big Card  |00:1.0  |7%    12M(34M)|1|2\n")
    assert [line.number for line in found.records[0].misfits] == [4]
    assert dict(found.records[0].values) == {}


def test_other_lines_are_returned_unread() -> None:
    found = table("noise\n" + HEAD + "Error: 5C\n" + CARD + "-----\nafter\n")
    assert [line.text for line in found.unread_lines] == ["noise", "Error: 5C", "after"]
    assert len(found.records) == 1


def test_bordered_tables_have_the_same_cells() -> None:
    text = "+----+\n| ID   Name | Bus |\n+====+\n| 3    Big Card | 00:1.0 |\n+----+\n"
    assert values(text) == [{"id": "3", "name": "Big Card", "bus": "00:1.0"}]


def test_bordered_row_is_no_record_of_an_open_table() -> None:
    assert values(HEAD + "|   0  Other Card | 00:1.0 | 7%  12M(34M) |\n") == []


def test_rules_are_recognized() -> None:
    for text, expected in [
        ("---", True),
        ("+---+---+", True),
        ("|====+====|", True),
        ("  -----  ", True),
        ("--", False),
        ("+--+", False),
        ("...", False),
        ("", False),
        ("| - | - |", False),
        ("-----x", False),
    ]:
        assert is_rule(text) is expected
