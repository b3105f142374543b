"""What each parser reads in the short texts of its table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kits.captures import registered_parsers
from parsers.short_texts import FOLDER, escaped, table_now, unescaped

PARSERS = registered_parsers()


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.iterdir()))
def test_short_texts_are_read_as_their_table_says(name: str, assert_golden: Callable[[Path, str], None]) -> None:
    assert_golden(FOLDER / f"{name}.txt", table_now(PARSERS[name]))


@pytest.mark.parametrize("text", ["", "a", "a\n", "a\n\nb\\", "\x1b[1m \r\n\ta \n", "\\u00e9", "é\ufeff \\\\\n"])
def test_a_table_keeps_each_character(text: str) -> None:
    assert "".join(map(unescaped, escaped(text))) == text
