"""Bytes per sample: two hours of real pages, fifteen seconds apart, in finished blocks as after a long run."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from fleet_parts.nodes import BEGIN_UNIX_SECONDS, STEP_SECONDS, Course, lines
from fleet_parts.servers import JOB, Disk, VictoriaMetrics, block_sizes
from telemetry_daemon.simulate.demo import parse_demo
from telemetry_exporters.prometheus.renderer import Syntax

BLOCK_SECONDS = 7200
PAGES = int(BLOCK_SECONDS / STEP_SECONDS)
_LINE = re.compile(rb"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")


def timestamped_samples(kinds: tuple[str, ...], pages: int, unit: int) -> Iterator[bytes]:
    """Yield the pages of a node of each kind. Each sample has the target's labels and a timestamp in 1/`unit` seconds."""
    courses = [Course(parse_demo(kind), seed=1) for kind in kinds]
    for number in range(pages):
        time = int((BEGIN_UNIX_SECONDS + number * STEP_SECONDS) * unit)
        for position, course in enumerate(courses):
            target = f'job="{JOB}",instance="node{position}:19820"'.encode()
            body = course.pages[-1].body(Syntax.TEXT)
            yield b"".join(_with_target(line, target, time) for line in lines(body))
            course.step()


def _with_target(line: bytes, target: bytes, time: int) -> bytes:
    match = _LINE.match(line)
    assert match is not None, line
    labels = b",".join(filter(None, (target, match[2])))
    return b"%s{%s} %s %d\n" % (match[1], labels, match[3], time)


def prometheus_disk(kinds: tuple[str, ...], pages: int, folder: Path) -> Disk:
    """Write the pages with promtool, which produces the blocks of a running Prometheus, and return their size."""
    folder.mkdir(parents=True)
    text = folder / "samples.txt"
    with text.open("wb") as file:
        file.writelines(timestamped_samples(kinds, pages, unit=1))
        file.write(b"# EOF\n")
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "data")]
    subprocess.run(command, check=True, capture_output=True)
    text.unlink()
    return block_sizes(folder / "data")


def victoria_metrics_disk(kinds: tuple[str, ...], pages: int, folder: Path) -> Disk:
    """Send the pages to a VictoriaMetrics, which merges its parts, and return their size."""
    server = VictoriaMetrics(folder)
    server.targets_file.write_text("[]", "utf-8")
    server.start(interval_seconds=STEP_SECONDS)
    with contextlib.closing(server):
        for page in timestamped_samples(kinds, pages, unit=1000):
            server.put_lines(page)
        return server.flush()
