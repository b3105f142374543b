"""docs/writing-a-parser.md shows the example plugin's real files, all of them and as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "tests" / "example_plugin"
TEXT = (ROOT / "docs" / "writing-a-parser.md").read_text()
BLOCK = re.compile(r'^```\w+ title="([^"\n]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SHOWN = dict(BLOCK.findall(TEXT))
# A recording is lines of a thousand characters; the others are not part of the plugin.
NOT_SHOWN = {"captures/library.jsonl", "README.md", "conftest.py"}


def files() -> set[str]:
    found = (path.relative_to(EXAMPLE) for path in EXAMPLE.rglob("*") if path.is_file())
    return {str(path) for path in found if not any(part.startswith((".", "__pycache__")) for part in path.parts)}


def test_every_file_of_the_example_is_shown() -> None:
    assert set(SHOWN) == files() - NOT_SHOWN


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_a_shown_file_is_the_real_one(name: str) -> None:
    assert SHOWN[name] == (EXAMPLE / name).read_text()
