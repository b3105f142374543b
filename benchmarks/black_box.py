"""Measure the cost of the flight recorder, and of replaying hours.

python benchmarks/black_box.py [--quick]

`telemetry record` captures fake H100s. The hours repeat one minute of a node with cards of eleven vendors and are played by
`telemetry serve --replay --speed 100`: three hours, or one with --quick, which also measures the recorder with 8 cards only.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import psutil
from side_by_side import tables
from side_by_side.options import QUICK, parse_extent

from e2e.mixed_node import MixedNode
from kits.daemon import COMMAND, Daemon, clean_environment
from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.profile import load_profile
from telemetry_daemon.masking.mask import Mask
from telemetry_daemon.recordings.flight_writer import write
from telemetry_daemon.recordings.last_minutes import SECONDS, CaptureFeed, Listener, RecentCaptures
from telemetry_daemon.recordings.recording_file import RecordingFile
from telemetry_parsers.codec.captures import capture_line
from telemetry_parsers.model import Capture

_SPEED = 100


def main() -> None:
    quick = parse_extent(__doc__ or "") == QUICK
    tables.print_machine()
    rows = [recorder_row(cards) for cards in ((8,) if quick else (8, 16, 64, 128))]
    heading = (
        "cards",
        "captures/s",
        "tap alone, µs each",
        "with the ring, µs each",
        "the longest, ms",
        "CPU, ms/s",
        "ring, KiB",
        "without a listener, µs",
        "masked and written, s",
    )
    tables.print_table(heading, rows)
    print()
    seconds = 3600 if quick else 3 * 3600
    heading = ("played", "file, MiB", "begins after, s", "RSS at a tenth, MiB", "RSS at the end, MiB", "CPU, s")
    tables.print_table(heading, [replay_row(seconds)])


def record_captures(environment: dict[str, str], folder: Path, seconds: int, config: str = "") -> list[Capture]:
    """Return the captures that `telemetry record` writes on a node in this time."""
    path, settings = folder / "recording.jsonl", folder / "telemetry.toml"
    settings.write_text(f'[state]\ndirectory = "{folder}/state"\nruntime_directory = "{folder}/run"\n{config}')
    command = [*COMMAND, "record", "--config", str(settings), "-o", str(path), "--for", f"{seconds}s", "--unmasked"]
    subprocess.run(command, env=clean_environment(environment), check=True, stderr=subprocess.DEVNULL)
    return list(RecordingFile(path))


def repeated(captures: Sequence[Capture], seconds: float, times: int) -> Iterator[Capture]:
    """Yield the captures `times` times, each repetition `seconds` later than the one before."""
    for turn in range(times):
        for capture in captures:
            delay = turn * seconds
            yield replace(capture, monotonic_time=capture.monotonic_time + delay, wall_time=capture.wall_time + delay)


def recorder_row(cards: int) -> tuple[object, ...]:
    """Return a table row: the cost of the recorder for a number of cards."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        fake = FakeNvml(folder / "nvml", load_profile("h100").with_gpus(min(cards, 64)).busy())
        recorded = [capture for capture in record_captures(fake.environment, folder, 30) if capture.outputs]
        captures = [_repeated_for_cards(capture, cards) for capture in recorded]
        rate = len(captures) / 30
        without_listener = _cost(CaptureFeed(), captures)[0]
        alone, _ = _cost(_feed_with_listener(lambda _: None), captures)
        ring = RecentCaptures()
        kept, longest = _cost(_feed_with_listener(ring.add), list(repeated(captures, 30.0, 6)))
        began = time.process_time()
        mask = Mask(b"x" * 32, ())
        window = int(rate * SECONDS)
        write(
            folder / "flights",
            "x",
            (capture_line(mask.masked_capture(item, None)) for item in list(repeated(captures, 30.0, 6))[:window]),
        )
        written = time.process_time() - began
    return (
        cards,
        f"{rate:.1f}",
        f"{1e6 * alone:.0f}",
        f"{1e6 * kept:.0f}",
        f"{1e3 * longest:.2f}",
        f"{1e3 * kept * rate:.2f}",
        f"{ring.size_bytes / 1024:.0f}",
        f"{1e6 * without_listener:.2f}",
        f"{written:.1f}",
    )


def _repeated_for_cards(capture: Capture, cards: int) -> Capture:
    """Return the capture for a number of cards. The fake library has at most 64 cards, so its outputs are repeated."""
    if cards <= 64:
        return capture
    return replace(capture, outputs=capture.outputs * (cards // 64))


def _feed_with_listener(listener: Listener) -> CaptureFeed:
    feed = CaptureFeed()
    feed.add_listener(listener, lambda: None)
    return feed


def _cost(feed: CaptureFeed, captures: Sequence[Capture]) -> tuple[float, float]:
    """Return the mean CPU seconds per capture, and the maximum."""
    took = []
    for capture in captures:
        began = time.thread_time()
        feed(capture, None)
        took.append(time.thread_time() - began)
    return sum(took) / len(took), max(took)


def replay_row(seconds: int) -> tuple[object, ...]:
    """Return the table row for a replay of a busy mixed node over this many seconds."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        node = MixedNode(folder)
        tool_paths = "".join(line + "\n" for line in node.config.splitlines() if line.startswith(("[", "path")))
        minute = record_captures(dict(node.environment), folder, 60, tool_paths)
        path = folder / "hours.jsonl.gz"
        with gzip.open(path, "wb", compresslevel=6) as file:
            for capture in repeated(minute, 60.0, seconds // 60):
                file.write(capture_line(capture))
        size = path.stat().st_size / 2**20
        began = time.monotonic()
        (folder / "player").mkdir()
        with Daemon(folder / "player", arguments=("--replay", str(path), "--speed", str(_SPEED), "--once")) as daemon:
            ready = time.monotonic() - began
            process = psutil.Process(daemon.pid)
            time.sleep(seconds / _SPEED / 10)
            first = process.memory_info().rss / 2**20
            time.sleep(seconds / _SPEED * 0.9)
            last, cpu = process.memory_info().rss / 2**20, sum(process.cpu_times()[:2])
            assert len(daemon.document()["devices"]) > 10
    return (f"{seconds / 3600:.0f} h", f"{size:.1f}", f"{ready:.1f}", f"{first:.1f}", f"{last:.1f}", f"{cpu:.0f}")


if __name__ == "__main__":
    main()
