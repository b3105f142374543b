"""Lines that a launcher passed on with a word before each."""

from __future__ import annotations

from telemetry_parsers.text.lines import lines
from telemetry_parsers.text.prefixes import without_prefix


def test_what_all_lines_begin_with_is_taken_off() -> None:
    for text, bare in [
        ("node7 out: a: 1\nnode7 out:   b: 2\nnode7 out:\nnode7 out: c\n", ["a: 1", "  b: 2", "", "c"]),
        ("3: [\n3:  {\n3: }\n", ["[", " {", "}"]),
        ("gpu04 | GPU: 0\ngpu04 |     POWER:\ngpu04 |     CLOCK:\n", ["GPU: 0", "    POWER:", "    CLOCK:"]),
        ("[1,0]<stdout>:a: 1\n[1,0]<stdout>:\n[1,0]<stdout>: b\n", ["a: 1", "", " b"]),
        (
            "srun: job 17 queued\nsrun: job 17 has got it\n0: a\n0: b\n",
            ["srun: job 17 queued", "srun: job 17 has got it", "a", "b"],
        ),
        ("> a: 1\n>   b: 2\n>\n> c\n", ["a: 1", "  b: 2", "", "c"]),
        ("# a: 1\n# b: 2\n", ["a: 1", "b: 2"]),
        ("1: a\n2: b\n3: c\n", ["1: a", "2: b", "3: c"]),
        ("node7 out: a\n", ["node7 out: a"]),
        ("  x: 1\n  x: 2\n  x: 3\n", ["  x: 1", "  x: 2", "  x: 3"]),
        ("no\nprefix\nhere\n", ["no", "prefix", "here"]),
        ("", []),
    ]:
        assert [line.text for line in without_prefix(lines(text))] == bare


def test_numbers_and_the_missing_end_of_lines_are_kept() -> None:
    found = without_prefix(lines("0: a\n0: b\n0: c"))
    assert [(line.number, line.text, line.ended) for line in found] == [(1, "a", True), (2, "b", True), (3, "c", False)]
