"""Text functions of all parsers: lines, quotes, addresses, units, JSON in other text; tables of real outputs."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import review
from kits.captures import ROOT, registered_parsers
from telemetry_parsers import units
from telemetry_parsers.model import Absent
from telemetry_parsers.text.documents import OBJECTS, find_documents
from telemetry_parsers.text.lines import bus_address, lines, quote
from telemetry_parsers.text.tool_marks import TOOL_MARKS, foreign_tool


def test_lines_are_numbered_and_lose_colours_and_carriage_returns() -> None:
    found = lines("\x1b[31mred\x1b[0m\r\n\nlast\n")
    assert [(line.number, line.text, line.ended) for line in found] == [
        (1, "red", True),
        (2, "", True),
        (3, "last", True),
    ]


def test_lines_lose_what_copying_adds() -> None:
    assert [line.text for line in lines("\ufeffGPU\u00a00\n\ufeff\n")] == ["GPU 0", "\ufeff"]


@pytest.mark.parametrize("prompt", ["[sudo] password for joe: ", "[sudo] joe 的密码：", "[sudo] password for joe:"])
def test_lines_lose_what_sudo_asks_before_the_first_of_them(prompt: str) -> None:
    assert [line.text for line in lines(f"{prompt}GPU: 0\n    POWER: 9 W\n")] == ["GPU: 0", "    POWER: 9 W"]
    assert [line.text for line in lines(f"{prompt}\nSorry, try again.\n{prompt}GPU: 0\n")] == [
        "",
        "Sorry, try again.",
        "GPU: 0",
    ]


def test_last_line_without_an_end_is_marked() -> None:
    assert [line.ended for line in lines("one\ntwo")] == [True, False]


def test_blanks_after_the_last_end_are_no_line() -> None:
    assert [line.text for line in lines("one\n   ")] == ["one"]


def test_position_names_the_stream_of_a_line() -> None:
    assert lines("a\nb\n", "stderr")[1].where == "stderr line 2"
    assert lines("a\n")[0].where == "line 1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  a\t b \n", "a b"),
        ("a\x00b\x1bc", "a?b?c"),
        ("x" * 1000, "x" * 159 + "…"),
        ("", ""),
    ],
)
def test_quote_is_short_and_printable(text: str, expected: str) -> None:
    assert quote(text) == expected


def test_bus_address_is_the_kernels_spelling_or_nothing() -> None:
    for text, expected in [
        ("00000000:18:00.0", "0000:18:00.0"),
        ("0000:1A:0F.7", "0000:1a:0f.7"),
        ("00010000:e1:00.0", "10000:e1:00.0"),
        (" 0000:18:00.0 ", "0000:18:00.0"),
        ("18:00.0", None),
        ("0000:18:00", None),
        ("0000:18:00.8", None),
        ("0000:18:00.0 Off", None),
        ("N/A", None),
        ("", None),
    ]:
        assert bus_address(text) == expected


def test_every_mark_names_its_tool_to_another_tools_parser() -> None:
    for tool, mark in [(tool, mark) for tool, marks in TOOL_MARKS.items() for mark in marks]:
        reading_tool = "mthreads-gmi" if tool != "mthreads-gmi" else "nvidia-smi"
        assert foreign_tool(f"| {mark} 1.2 |", reading_tool) == tool


def test_own_marks_outweigh_foreign_ones() -> None:
    assert foreign_tool("mthreads-gmi:1.0\n0 12 nvidia-smi NVIDIA-SMI 1MiB", "mthreads-gmi") is None


def test_text_without_marks_has_no_tool() -> None:
    assert foreign_tool("hello", "mthreads-gmi") is None


NOT_REPORTED, NOT_SUPPORTED = Absent.NOT_REPORTED, Absent.NOT_SUPPORTED
NOT_UNDERSTOOD, IMPLAUSIBLE = Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE
ALL_UNITS = (
    units.RATIO, units.CELSIUS, units.WATTS, units.JOULES, units.HERTZ, units.BYTES, units.SECONDS, units.COUNT,
)  # fmt: skip


def test_number() -> None:
    for text, value in [
            ("0", 0.0), ("57", 57.0), ("57.0", 57.0), (" 57 ", 57.0), ("-5", -5.0), ("+5", 5.0), ("007", 7.0),
            ("18446744073709551614000", 1.8446744073709552e22),
            # Exponents, hexadecimal digits and separators are not accepted, because they are easily misread.
            ("1e3", NOT_UNDERSTOOD), ("1E3", NOT_UNDERSTOOD), ("0x10", NOT_UNDERSTOOD), ("-0x7fe3", NOT_UNDERSTOOD),
            ("1,234", NOT_UNDERSTOOD), ("1.234.567", NOT_UNDERSTOOD), ("1 234", NOT_UNDERSTOOD), ("1_000", NOT_UNDERSTOOD),
            ("1'234", NOT_UNDERSTOOD), ("12abc34", NOT_UNDERSTOOD), ("5.", NOT_UNDERSTOOD), (".5", NOT_UNDERSTOOD),
            ("--5", NOT_UNDERSTOOD), ("nan", NOT_UNDERSTOOD), ("inf", NOT_UNDERSTOOD), ("-inf", NOT_UNDERSTOOD),
            ("٣", NOT_UNDERSTOOD), ("５７", NOT_UNDERSTOOD), ("1" * 400, NOT_UNDERSTOOD), ("ERR!", NOT_UNDERSTOOD),
            # All bits set, and the placeholders of drivers for unknown values.
            ("4294967295", IMPLAUSIBLE), ("18446744073709551615", IMPLAUSIBLE), ("9223372036854775807", IMPLAUSIBLE),
            ("9223372036854775794", IMPLAUSIBLE), ("2147483647", IMPLAUSIBLE), ("2147483632", IMPLAUSIBLE),
            ("-4294967295", IMPLAUSIBLE), ("4294967294", 4294967294.0),
            # Placeholders, with and without brackets.
            ("", NOT_REPORTED), ("   ", NOT_REPORTED), ("-", NOT_REPORTED), ("N/A", NOT_REPORTED), ("n/a", NOT_REPORTED),
            ("[N/A]", NOT_REPORTED), ("None", NOT_REPORTED), ("null", NOT_REPORTED), ("Unknown", NOT_REPORTED),
            ("[Not Supported]", NOT_SUPPORTED), ("Not Supported", NOT_SUPPORTED), ("[Not Applicable]", NOT_SUPPORTED),
            ("Permission denied", Absent.NOT_PERMITTED), ("[Insufficient Permissions]", Absent.NOT_PERMITTED),
        ]:  # fmt: skip
        assert units.number(text) == value


def test_quantity() -> None:
    """A number with a unit of its kind, in base units; a bare number only if something else named the unit."""
    for text, kind, bare, value in [
            ("57%", units.RATIO, None, 0.57), ("57 %", units.RATIO, None, 0.57), ("0%", units.RATIO, None, 0.0),
            ("12.5%", units.RATIO, "%", 0.125), ("57", units.RATIO, "%", 0.57), ("57", units.RATIO, None, NOT_UNDERSTOOD),
            ("61C", units.CELSIUS, None, 61.0), ("50.0c", units.CELSIUS, None, 50.0), ("-3°C", units.CELSIUS, None, -3.0),
            ("45000 mC", units.CELSIUS, None, 45.0), ("61F", units.CELSIUS, None, NOT_UNDERSTOOD),
            ("57.0 W", units.WATTS, None, 57.0), ("153.59W", units.WATTS, None, 153.59), ("57000mW", units.WATTS, None, 57.0),
            ("57.0", units.WATTS, "W", 57.0), ("57.0", units.WATTS, None, NOT_UNDERSTOOD), ("57 V", units.WATTS, None, NOT_UNDERSTOOD),
            ("1600MHz", units.HERTZ, None, 1.6e9), ("1600Mhz", units.HERTZ, None, 1.6e9), ("1.6 GHz", units.HERTZ, None, 1.6e9),
            ("16384MiB", units.BYTES, None, 16384.0 * 2**20), ("16384MB", units.BYTES, None, 16384.0 * 2**20),
            ("80 GB", units.BYTES, None, 80.0 * 2**30), ("0MiB", units.BYTES, None, 0.0), ("1024", units.BYTES, "B", 1024.0),
            ("16.0 EB", units.BYTES, None, IMPLAUSIBLE), ("17 EiB", units.BYTES, None, IMPLAUSIBLE),
            ("1.5 EB", units.BYTES, None, NOT_UNDERSTOOD), ("4294967295MiB", units.BYTES, None, IMPLAUSIBLE),
            ("3 ms", units.SECONDS, None, 0.003),
            ("7", units.COUNT, None, 7.0), ("7 errors", units.COUNT, None, NOT_UNDERSTOOD),
            ("N/A", units.WATTS, "W", NOT_REPORTED), ("[Not Supported]", units.WATTS, "W", NOT_SUPPORTED),
            ("1e3W", units.WATTS, None, NOT_UNDERSTOOD), ("1,5 W", units.WATTS, None, NOT_UNDERSTOOD),
            ("57.0 W / 700 W", units.WATTS, None, NOT_UNDERSTOOD), ("57.0 W extra", units.WATTS, None, NOT_UNDERSTOOD),
            ("mW", units.WATTS, None, NOT_UNDERSTOOD), ("57 ww", units.WATTS, None, NOT_UNDERSTOOD),
            # amd-smi 24.6, rocm-smi 5.4 with an APU, amd-smi of a hypervisor.
            ("N/A mV", units.VOLTS, "mV", NOT_REPORTED), ("None%", units.RATIO, "%", NOT_REPORTED),
            ("N/A N/A", units.CELSIUS, None, NOT_REPORTED), ("N/A °C", units.CELSIUS, None, NOT_REPORTED),
            ("- W", units.WATTS, None, NOT_UNDERSTOOD), ("%", units.RATIO, None, NOT_UNDERSTOOD), (" W", units.WATTS, "W", NOT_UNDERSTOOD),
            ("N/A W", units.VOLTS, None, NOT_UNDERSTOOD), ("5 N/A", units.WATTS, "W", NOT_UNDERSTOOD),
        ]:  # fmt: skip
        assert units.quantity(text, kind, bare) == value


def test_blanks_and_placeholders_are_no_text() -> None:
    for text, value in [(None, None), (" S60 ", "S60"), ("", None), (" " * 400, None), (" " * 400 + "N/A", None)]:
        assert units.text_or_none(text) == value


def test_integers() -> None:
    for text, value in [("0", 0), ("12", 12), (" 7 ", 7), ("-1", None), ("1.0", None), ("", None), ("0x1", None), ("³", None), ("9" * 30, None)]:  # fmt: skip
        assert units.integer(text) == value


@given(st.text(max_size=80), st.sampled_from(ALL_UNITS), st.sampled_from((None, "%", "W", "MiB", "")))
def test_quantity_of_any_text_is_finite_or_absent(text, kind, bare):
    value = units.quantity(text, kind, bare)
    if not isinstance(value, Absent):
        assert math.isfinite(value)
        assert any(character in "0123456789" for character in text)


@given(st.decimals(min_value=0, max_value=10**9, places=3, allow_nan=False, allow_infinity=False))
def test_a_printed_number_is_read_as_it_was_meant(number):
    assert units.quantity(f"{number} W", units.WATTS) == float(number)


def test_a_pcie_generation_from_its_speed() -> None:
    for speed, generation in [
        ("2.5", 1.0),
        ("5.0", 2.0),
        ("16", 4.0),
        (" 32.0 ", 5.0),
        ("64.0", 6.0),
        ("N/A", Absent.NOT_REPORTED),
        ("12", Absent.NOT_UNDERSTOOD),
        ("16.0 GT/s", Absent.NOT_UNDERSTOOD),
    ]:
        assert units.pcie_generation(speed) == generation


TABLES = ROOT / "tests" / "shared"
PARSERS = registered_parsers()
SOURCES = sorted(path.stem for path in TABLES.glob("*.txt"))


@pytest.mark.needs("captures")
@pytest.mark.parametrize("source", SOURCES)
def test_every_real_output_matches_its_reviewed_table(source: str, assert_golden: Callable[[Path, str], None]) -> None:
    lines = review.shared_expectations(PARSERS[source])
    assert_golden(TABLES / f"{source}.txt", "".join(f"{line}\n" for line in lines))


def test_every_source_with_real_outputs_has_a_table() -> None:
    assert {source for source in PARSERS if review.of_source(source)} - set(SOURCES) == set()


# A part of the file's name, and the text of its problems; `...` is where the source shortened the text.
WORDS = {
    "amd-smi": {
        "6.1.0-metric-cpu": "no GPU",
        "6.2-error-no-device": "Can not find a device",
        "mi300x-dpx-7.0.2-usage": "Python",
        "6.1.1-metric-ecc": "shortened",
        "6.3-metric-pcie": "shortened",
        "6.3-metric-throttle": "shortened",
        "6.3-metric-usage-xcp": "shortened",
        "6.3-monitor-violation": "shortened",
        "130-monitor-process": "missing the following required groups",
    },
    "rocminfo": {
        "agent-enumerator-nodriver": "/sys/class/kfd",
        "local-5.2.3-nodriver": "NOT loaded",
        "not-member-of-video": "Permission denied",
        "z100-grep-gfx": "extract",
    },
}


@pytest.mark.needs("captures")
@pytest.mark.parametrize(
    ("source", "name", "word"), [(source, *row) for source, rows in WORDS.items() for row in rows.items()]
)
def test_problem_of_a_real_output_has_the_expected_text(source: str, name: str, word: str) -> None:
    (path,) = (path for path in review.of_source(source) if name in path.stem)
    problems = PARSERS[source].parse(review.shared_capture(PARSERS[source], path)).problems
    assert [word in problem.text for problem in problems] == [True]


def test_documents_follow_each_other_with_and_without_a_line_between() -> None:
    found = find_documents('[{"a": 1}][{"a": 2}]\n{"b": 0.50}\n')
    assert [item.value for item in found.documents] == [[{"a": "1"}], [{"a": "2"}], {"b": "0.50"}]
    assert found.problems(found.documents) == []


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ('[{"a": 1}, {"a": 2}, {"a":', [{"a": "1"}, {"a": "2"}]),
        ('{"cards": [{"a": 1}, {"a":', [{"a": "1"}]),
        ('{"about": {"v": 1}, "none": [], "cards": [{"a": 1}, {"a":', [{"a": "1"}]),
        ('{"gpu": 0, "links": [{"gpu": 1}, {"gpu":', []),  # the links of a card are no cards
        ('{"about": {"v": 1', []),
        ('{"a": "b', []),
    ],
)
def test_of_a_cut_document_the_items_of_its_list_are_kept(text: str, items: list[object]) -> None:
    (document,) = find_documents(text).documents
    assert document.fault
    assert document.value == items


@pytest.mark.parametrize(
    "line",
    ["WARNING: x", "[ 12.345678] amdgpu: x", "2025-11-22 x", "16:30:01 x", "---- x", "(x)", "*** x", "warn: {x}"],
)
def test_foreign_line_within_a_document_is_reported(line: str) -> None:
    found = find_documents(f'[\n{line}\n{{"a":\n{line}\n-1.5}},\n[true,\nnull]]\n')
    assert [item.value for item in found.documents] == [[{"a": "-1.5"}, [True, None]]]
    assert [problem.text for problem in found.problems(found.documents)] == [f"text outside the JSON: {line}"] * 2


def test_ignored_document_is_reported_like_other_text() -> None:
    found = find_documents('before\n{"x": 1}\n{"a": 1}\nbehind')
    problems = found.problems(found.documents[1:])
    assert [problem.text.removeprefix("text outside the JSON: ") for problem in problems] == [
        "before",
        '{"x": 1}',
        "behind",
    ]


def test_objects_may_follow_a_prefix_in_their_line() -> None:
    text = 'node7: {"a": 1}\n'
    assert find_documents(text).documents == ()
    assert [item.value for item in find_documents(text, OBJECTS).documents] == [{"a": "1"}]
