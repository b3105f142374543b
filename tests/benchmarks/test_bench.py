"""The benchmark's report: its parts, contestants that read no card, table and goals."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import bench
import pytest
from side_by_side import measured
from side_by_side.contestants import Contestant, NotServingError, running
from side_by_side.goals import Results, rows
from side_by_side.measured import Round, spread
from side_by_side.processes import Memory

from kits.captures import ROOT
from kits.ports import free_port

FOLDER = ROOT / "benchmarks"
ROUND = Round(0.02, Memory(30.0, 45.0, 33.0), (0.001, 0.002, 0.009), 1500, 13_000)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--only", "nvidia,nothing"), "no part nothing"),
        (("--against", "old=/nowhere"), "expected NAME=PATH of a checkout"),
    ],
)
def test_unknown_arguments_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench.py", *arguments])
    with pytest.raises(SystemExit, match="2"):
        bench.main()
    assert words in " ".join(capsys.readouterr().err.split())


MARKED = "before\n<!-- make bench: begin -->\n{}\n<!-- make bench: end -->\nafter\n"


def test_tables_are_written_between_the_markers_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(MARKED.format("old"))
    bench.write_between_marks(page, "new")
    assert page.read_text() == MARKED.format("new")
    page.write_text("no marks")
    with pytest.raises(SystemExit):
        bench.write_between_marks(page, "new")


@pytest.mark.long
def test_a_short_bench_of_the_commands_fills_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(MARKED.format("old"))
    line = [sys.executable, str(FOLDER / "bench.py"), "--quick", "--only", "commands", "--against", f"then={ROOT}"]
    subprocess.run([*line, "--into", str(page)], check=True)
    text = page.read_text()
    assert text.startswith("before\n<!-- make bench: begin -->\nMeasured on ")
    assert text.endswith("|\n<!-- make bench: end -->\nafter\n")
    assert text.count("\n| telemetry version ") == 2
    (goal,) = (line for line in text.splitlines() if line.startswith("| `telemetry version`"))
    assert [cell.strip() for cell in goal.split("|")][-2] in ("met", "missed")
    assert "nvitop" not in text, "no goal of a part that was not measured"


def test_program_that_does_not_start_is_reported_with_its_last_output() -> None:
    dies = Contestant("a stone", (sys.executable, "-c", "raise SystemExit('no page here')"), free_port(), b"watts")
    with pytest.raises(NotServingError, match=r"a stone was not measured.*no page here"), running(dies):
        pass


def test_report_has_the_median_of_rounds_and_the_99th_percentile_of_scrapes() -> None:
    rounds = [replace(ROUND, cpu=cpu, latencies=(cpu,) * 50) for cpu in (0.03, 0.01, 0.02)]
    found = spread(measured.CPU, rounds)
    assert found is not None
    assert (found.median, found.low, found.high) == (20.0, 10.0, 30.0)
    slowest = spread(measured.P99, rounds)
    assert slowest is not None
    assert (slowest.median, slowest.low) == (30.0, 10.0)
    assert spread(measured.START, rounds) is None


def test_a_goal_is_met_missed_or_not_measured() -> None:
    twice = replace(ROUND, cpu=0.04, memory=Memory(40.0, 40.0, 30.0))
    results = Results({"nvidia": {"telemetry": [ROUND], "nvitop-exporter": [twice]}}, {}, {})
    cells_by_words = {words: cells for words, *cells in rows(results, ["nvidia"], ["telemetry", "telemetry old"])}
    assert [cells_by_words[words] for words in cells_by_words if ": CPU," in words] == [
        ["≤ 0.45", "0.5", "not measured", "missed"]
    ]
    assert [cells_by_words[words] for words in cells_by_words if words.startswith("RSS of the daemon")] == [
        ["≤ 1", "0.75", "not measured", "met"]
    ]
    assert [cells_by_words[words] for words in cells_by_words if "all-smi" in words] == [
        ["≤ 0.8", "not measured", "not measured", ""]
    ]
