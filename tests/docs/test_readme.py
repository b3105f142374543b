"""What README.md shows is what comes out."""

from __future__ import annotations

import re
from pathlib import Path

from telemetry_daemon.cli import COMMANDS
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.simulate.demo import parse_demo
from telemetry_daemon.simulate.faults import NO_FAULTS
from telemetry_daemon.simulate.source import simulated_sources
from telemetry_daemon.state.health import judge
from telemetry_daemon.state.store import SourceFacts, Store
from telemetry_daemon.times import Clock
from telemetry_exporters.prometheus import text_page
from telemetry_exporters.style import Colour
from telemetry_exporters.table import table
from telemetry_parsers.model import Snapshot

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text()
WIDTH = 110


def simulated(node: str) -> Snapshot:
    """A simulated node after an hour of its course."""
    times = {"now": 0.0}
    clock = Clock(lambda: times["now"], lambda: 1_780_000_000.0 + times["now"])
    store = Store("node7", clock)
    sources = simulated_sources(parse_demo(node), faults=NO_FAULTS, clock=clock)
    for moment in (0.0, 3600.0):
        times["now"] = moment
        for source in sources:
            parser = source.parser
            store.add_source(SourceFacts(parser.name, parser.vendor, parser.gives))
            for poll in parser.polls:
                capture = source.reader.read(poll, Targets())
                report = parser.parse(capture)
                store.put(parser.name, poll, capture, report, judge(capture, report, 0), poll.interval)
    return store.snapshot()


def test_the_table_is_a_real_one():
    """The picture of `telemetry snapshot` is its output for a simulated node."""
    shown = re.search(r"```console\n\$ telemetry snapshot\n(.*?)```", README, re.DOTALL)
    assert shown is not None
    assert shown[1] == table(simulated("2xnvidia,2xmoorethreads,2xascend,1xhygon"), WIDTH, Colour.NEVER)


def test_the_metrics_are_real_ones():
    """What `curl` shows of the node that `make run` simulates; the numbers change with time."""
    shown = re.findall(r"^(accelerator_[^ ]+\{.*\}) [0-9.]+$", README, re.MULTILINE)
    page = text_page(simulated("")).decode()
    assert len(shown) == 2
    assert [line for line in shown if f"\n{line} " not in page] == []


def test_every_link_leads_somewhere():
    """Files that README.md and the pages of docs/ link to are there."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    prose = {page: re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE) for page in pages}
    links = [(page, link) for page, text in prose.items() for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)]
    assert [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()] == []


def anchors(page: Path) -> set[str]:
    """The names under which GitHub and its like let one link to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.M), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_to_a_heading_leads_to_one():
    pages = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), ROOT / "grafana" / "README.md"]
    links = [(page, *link) for page in pages for link in re.findall(r"\]\(([^)#: ]*)#([^)]+)\)", page.read_text())]
    assert len(links) > 5
    wrong = [
        f"{page.name}: {to}#{name}" for page, to, name in links if name not in anchors(page.parent / to if to else page)
    ]
    assert wrong == []


def test_every_command_of_the_readme_exists():
    """`telemetry X` in README.md and docs/ is a command that there is."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    named = {word for page in pages for word in re.findall(r"`telemetry ([a-z]+)", page.read_text())}
    assert named - {name for name, _ in COMMANDS} == set()


def test_no_figure_is_still_to_be_filled_in():
    """A page is not published with a hole in it."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    assert [page.name for page in pages if re.search(r"@[A-Z]{2,}@|TODO|FIXME|XXX", page.read_text())] == []


def test_the_index_of_the_tests_names_every_kit():
    kits = ROOT / "tests" / "kits"
    listed = set(re.findall(r"`(\w+)/?`", (ROOT / "tests" / "README.md").read_text().partition("## Kits")[2]))
    assert {path.stem for path in kits.rglob("*.py") if path.stem != "__init__"} - listed == set()


def test_the_index_of_ci_names_every_file():
    folder = ROOT / ".ci"
    listed = set(re.findall(r"`([\w.-]+)`", (folder / "README.md").read_text()))
    assert {path.name for path in folder.iterdir() if path.is_file()} - listed - {"README.md"} == set()
