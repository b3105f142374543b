"""README.md shows real output, and its links and commands exist."""

import html
import itertools
import re
import sys
from pathlib import Path

from kits.captures import ROOT
from telemetry_daemon.cli import COMMANDS
from telemetry_exporters.prometheus.renderer import text_page
from telemetry_exporters.terminal.style import Colour
from telemetry_exporters.terminal.table import table
from telemetry_parsers.vendors import VENDORS

sys.path.insert(0, str(ROOT / ".ci"))

from terminal_picture import COLUMNS, NODE, snapshots, svg

README = (ROOT / "README.md").read_text()


def rows_of(drawn: str) -> list[str]:
    return [html.unescape(re.sub("<[^>]+>", "", row)) for row in re.findall(r"<text .*</text>", drawn)]


def test_svg_shows_the_same_rows_as_the_terminal():
    coloured, plain = (table(next(snapshots(NODE)), COLUMNS, colour) for colour in (Colour.ANSI, Colour.NEVER))
    assert rows_of(svg(coloured.splitlines())) == [line for line in plain.splitlines() if line]


def test_the_readme_names_every_vendor():
    rows = "".join(re.findall(r"^\| .*$", README.partition("## What it promises")[0], re.MULTILINE))
    first = README.partition("```")[0]
    assert [vendor.name for vendor in VENDORS if vendor.name not in rows or vendor.name not in first] == []


def test_the_metrics_are_real_ones():
    """The output of `curl` for the node that `make run` simulates; numbers are ignored because they change."""
    shown = re.findall(r"^(accelerator_[^ ]+\{.*\}) [0-9.]+$", README, re.MULTILINE)
    _, after_an_hour = itertools.islice(snapshots("", step_seconds=3600.0), 2)
    page = text_page(after_an_hour).decode()
    assert len(shown) == 2
    assert [line for line in shown if f"\n{line} " not in page] == []


def test_every_link_has_a_target():
    """In README.md and the pages of docs/."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    prose = {page: re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE) for page in pages}
    links = [(page, link) for page, text in prose.items() for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)]
    assert [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()] == []


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.M), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_heading_link_has_a_heading():
    pages = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), ROOT / "grafana" / "README.md"]
    links = [(page, *link) for page in pages for link in re.findall(r"\]\(([^)#: ]*)#([^)]+)\)", page.read_text())]
    assert len(links) > 5
    wrong = [
        f"{page.name}: {to}#{name}" for page, to, name in links if name not in anchors(page.parent / to if to else page)
    ]
    assert wrong == []


def test_every_command_of_the_readme_exists():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    named = {word for page in pages for word in re.findall(r"`telemetry ([a-z]+)", page.read_text())}
    assert named - {name for name, _ in COMMANDS} == set()


def test_the_index_of_the_tests_names_every_kit():
    kits = ROOT / "tests" / "kits"
    listed = set(re.findall(r"`(\w+)/?`", (ROOT / "tests" / "README.md").read_text().partition("## Kits")[2]))
    assert {path.stem for path in kits.rglob("*.py") if path.stem != "__init__"} - listed == set()


def test_the_index_of_ci_names_every_file():
    folder = ROOT / ".ci"
    listed = set(re.findall(r"`([\w.-]+)`", (folder / "README.md").read_text()))
    assert {path.name for path in folder.iterdir() if path.is_file()} - listed - {"README.md"} == set()
