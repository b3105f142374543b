"""Figures in the documentation are the same at each place."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from kits.captures import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = ROOT / "docs" / "figures.toml"
PAGES = sorted([*ROOT.glob("README*.md"), ROOT / "grafana" / "README.md", *ROOT.glob("docs/**/*.md")])
_UNIT = r"(?:[kKMG]i?B(?:/s)?|bytes|[mµ]s|% of a core|s|h|%|days|MB a day)"
NUMBER = rf"\d[\d.,]*(?: ?(?:to|–) ?\d[\d.,]*)?(?: ?{_UNIT}(?![A-Za-z]))?"


@dataclass(frozen=True)
class Figure:
    """A number, the sentences that quote it, and its measurement."""

    value: str
    quoted: tuple[str, ...]
    by: str


def figures() -> list[Figure]:
    rows = tomllib.loads(TABLE.read_text("utf-8"))["figure"]
    return [Figure(row["value"], tuple(row["quoted"]), row["by"]) for row in rows]


def flat(text: str) -> str:
    return " ".join(text.split())


TEXTS = {str(page.relative_to(ROOT)): flat(page.read_text("utf-8")) for page in PAGES}


def given(phrase: str) -> Iterator[tuple[str, str]]:
    before, _, after = phrase.partition("{}")
    pattern = re.compile(f"{re.escape(before)}({NUMBER}){re.escape(after)}")
    return ((name, found[1].rstrip(".,")) for name, text in TEXTS.items() for found in pattern.finditer(text))


@pytest.mark.parametrize("figure", figures(), ids=lambda figure: figure.quoted[0][:50])
def test_a_figure_is_the_same_wherever_it_is_quoted(figure: Figure) -> None:
    assert (ROOT / figure.by).is_file()
    for phrase in figure.quoted:
        found = list(given(phrase))
        assert found, f"no page says {phrase!r} any more: take it out of docs/figures.toml"
        assert [(name, number) for name, number in found if number != figure.value] == []
