"""Profiles of lines, as tests read them."""

from __future__ import annotations

from telemetry_profile.files.read_files import installed
from telemetry_profile.format_contract import HEAD_BYTES, Clue, Facts, TextFormat

TEXTS = [one for one in installed() if isinstance(one, TextFormat)]


def facts_of(name: str, data: bytes | str) -> Facts:
    """The facts of a file by its path; exactly one of the installed formats must know it."""
    found = known_facts(name, data)
    assert found is not None, f"no format of lines knows {name}"
    return found


def known_facts(name: str, data: bytes | str) -> Facts | None:
    """The facts of a file by its path; None where no format of lines knows it, two formats are a mistake."""
    content = data.encode() if isinstance(data, str) else data
    *folders, last = name.split("/")
    clue = Clue(last, tuple(folders), content[:HEAD_BYTES])
    found = [one for one in TEXTS if one.recognises(clue)]
    assert len(found) <= 1, [one.name for one in found]
    text = content.decode("utf-8-sig", "replace")
    return found[0].read(clue, iter(text.removesuffix("\n").split("\n"))) if found else None
