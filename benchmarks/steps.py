"""Measure what it costs the daemon to export the steps that jobs report in files.

python benchmarks/steps.py [--quick]

A daemon with eight H100 of the fake library is scraped once a second, and each rank writes its file every five seconds. The
hostile files belong to one user, are new at each write, and all have different contents.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from side_by_side import processes, tables
from side_by_side.contestants import running
from side_by_side.options import Extent, parse_extent
from side_by_side.ours import telemetry

from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.profile import load_profile
from telemetry_parsers.ownership import DeviceName, PartSeconds, StepCounts
from telemetry_parsers.steps import PARTS
from telemetry_profile.files.publish import publish

CARDS, WRITE_SECONDS = 8, 5
Write = Callable[[Path, int], None]


def rank_files(count: int) -> Write:
    """Return a function that writes the files of `count` ranks, an equal number on each card."""

    def write(folder: Path, turn: int) -> None:
        spent = tuple(PartSeconds(part, 1.5 * turn) for part in PARTS)
        for rank in range(count):
            card = DeviceName("", "index", str(rank % CARDS))
            publish(folder, StepCounts("", 0, "4711", str(rank), card, 9.0 * turn, 1e6 * turn, 1e15 * turn, spent))

    return write


def hostile_files(count: int) -> Write:
    """Return a function that writes `count` invalid files, in addition to the files of eight ranks."""

    def write(folder: Path, turn: int) -> None:
        rank_files(CARDS)(folder, turn)
        for number in range(count):
            (folder / f"bad-{number}.json").write_text(f'{{"turn": {turn}, "deep": ' + "[" * (number % 3000))

    return write


CASES: Mapping[str, tuple[str, Write | None]] = {
    "off": ("", None),
    "on, no folder": ("[steps]\nenabled = true\n", None),
    "on, 8 ranks": ("[steps]\nenabled = true\n", rank_files(8)),
    "on, 256 ranks": ("[steps]\nenabled = true\n", rank_files(256)),
    "on, 8 ranks and 1,000 hostile files": ("[steps]\nenabled = true\n", hostile_files(1_000)),
}


def main() -> None:
    limits = parse_extent(__doc__ or "")
    tables.print_machine()
    rows = [[case, *measured(config, write, limits)] for case, (config, write) in CASES.items()]
    tables.print_table(("steps", "CPU, ms/s", "RSS of the main process, MiB", "series of steps"), rows)


def measured(config: str, write: Write | None, limits: Extent) -> list[str]:
    rounds = [one_round(config, write, limits.seconds(30)) for _ in range(limits.rounds)]
    return [tables.number(statistics.median(column)) for column in zip(*rounds, strict=True)]


def one_round(config: str, write: Write | None, seconds: int) -> tuple[float, float, float]:
    """Return CPU milliseconds per second, MiB, and the number of step series."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "steps"
        if write is not None:
            folder.mkdir()
            folder.chmod(0o1777)
            write(folder, 1)
        where = f'directory = "{folder}"\n' if config else ""
        fake = FakeNvml(Path(root) / "nvml", load_profile("h100").with_gpus(CARDS))
        ours = telemetry(
            Path(root),
            "accelerator_power_watts",
            config + where + "[sources.nvml]\ninterval = 1.0\n",
            (),
            fake.environment,
        )
        with running(ours) as daemon:
            page = b""
            for turn in range(seconds + WRITE_SECONDS):
                if turn == WRITE_SECONDS:
                    before, begin = processes.cpu_seconds(daemon.process.pid), time.perf_counter()
                if write is not None and turn % WRITE_SECONDS == 0:
                    write(folder, turn + 2)
                page = daemon.scraper.scrape().page
                time.sleep(1.0)
            cpu = 1e3 * (processes.cpu_seconds(daemon.process.pid) - before) / (time.perf_counter() - begin)
            return cpu, processes.memory(daemon.process.pid).main_rss, page.count(b"\ntelemetry_steps_")


if __name__ == "__main__":
    main()
