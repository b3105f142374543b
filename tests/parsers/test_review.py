"""The review table names every capture, with what was read of it and what was not."""

from __future__ import annotations

import review
from kits.captures import own_cases, registered_parsers, shared_files
from kits.fake_mthreads_gmi import TABLE
from telemetry_parsers.vendors.moorethreads.mthreads_gmi import PARSER


def test_it_names_every_capture_of_every_source() -> None:
    heads = {line.split(":")[0] for line in review.review() if not line.startswith(" ")}
    known = registered_parsers()
    shared = {
        f"{path.parent.name}/{path.stem}"
        for path in shared_files("**")
        if review.SOURCES.get(path.parent.name, path.parent.name) in known
    }
    assert heads == shared | {f"own {case.id}" for case in own_cases()}


def test_it_can_be_narrowed() -> None:
    assert all(case.startswith((" ", "own host/")) for case in review.review("own host/"))


def test_a_file_with_its_devices_readings_and_problems() -> None:
    capture = review.text_capture(PARSER, TABLE)
    lines = list(review.file_lines("a table", PARSER, [capture]))
    assert lines[0].startswith("a table: ok, ")
    assert lines[1].strip().startswith("tool_version=")
    assert lines[2].strip().startswith("moorethreads index=0 model=MTT ")
    assert any("T.core=" in line and "total=" in line for line in lines)
