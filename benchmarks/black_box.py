"""What the flight recorder costs, and what it takes to play hours.

python benchmarks/black_box.py [--quick]

Captures are those of fake H100s, recorded by our own command; the hours are one minute of a node with cards of eleven vendors,
again and again, played by `telemetry serve --replay --speed 100`. Three hours are played, with --quick one, and of
fewer cards the recorder's cost is told.
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
from side_by_side.options import QUICK, extent

from e2e.mixed_node import MixedNode
from kits.daemon import COMMAND, Daemon, clean_environment
from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.profile import load_profile
from telemetry_daemon.masking.mask import Mask
from telemetry_daemon.recordings.flight_writer import write
from telemetry_daemon.recordings.last_minutes import SECONDS, Listener, Ring, Tap
from telemetry_daemon.recordings.recording_file import RecordingFile
from telemetry_parsers.codec.captures import capture_line
from telemetry_parsers.model import Capture

_SPEED = 100


def main() -> None:
    """Print the tables."""
    quick = extent(__doc__ or "") == QUICK
    tables.print_machine()
    rows = [of_recorder(cards) for cards in ((8,) if quick else (8, 16, 64, 128))]
    heading = (
        "cards",
        "captures/s",
        "tap alone, µs each",
        "with the ring, µs each",
        "the longest, ms",
        "CPU, ms/s",
        "ring, KiB",
        "nobody listens, µs",
        "masked and written, s",
    )
    tables.print_table(heading, rows)
    print()
    seconds = 3600 if quick else 3 * 3600
    heading = ("played", "file, MiB", "begins after, s", "RSS at a tenth, MiB", "RSS at the end, MiB", "CPU, s")
    tables.print_table(heading, [of_hours(seconds)])


def recorded(environment: dict[str, str], folder: Path, seconds: int, config: str = "") -> list[Capture]:
    """What our command records of a node in that time."""
    path, settings = folder / "recording.jsonl", folder / "telemetry.toml"
    settings.write_text(f'[state]\ndirectory = "{folder}/state"\nruntime_directory = "{folder}/run"\n{config}')
    command = [*COMMAND, "record", "--config", str(settings), "-o", str(path), "--for", f"{seconds}s", "--unmasked"]
    subprocess.run(command, env=clean_environment(environment), check=True, stderr=subprocess.DEVNULL)
    return list(RecordingFile(path))


def again(captures: Sequence[Capture], seconds: float, times: int) -> Iterator[Capture]:
    """The captures one time after the other, each so many seconds later."""
    for turn in range(times):
        for one in captures:
            late = turn * seconds
            yield replace(one, monotonic_time=one.monotonic_time + late, wall_time=one.wall_time + late)


def of_recorder(cards: int) -> tuple[object, ...]:
    """What it costs for so many cards."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        fake = FakeNvml(folder / "nvml", load_profile("h100").with_gpus(min(cards, 64)).busy())
        found = [one for one in recorded(fake.environment, folder, 30) if one.outputs]
        captures = [_of_cards(one, cards) for one in found]
        rate = len(captures) / 30
        nobody = _cost(Tap(), captures)[0]
        alone, _ = _cost(_listened(lambda _: None), captures)
        ring = Ring()
        kept, longest = _cost(_listened(ring.add), list(again(captures, 30.0, 6)))
        began = time.process_time()
        mask = Mask(b"x" * 32, ())
        window = int(rate * SECONDS)
        write(
            folder / "flights",
            "x",
            (capture_line(mask.capture(one, None)) for one in list(again(captures, 30.0, 6))[:window]),
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
        f"{1e6 * nobody:.2f}",
        f"{written:.1f}",
    )


def _of_cards(capture: Capture, cards: int) -> Capture:
    """The fake library has 64 cards at most: of more, an answer has those twice."""
    if cards <= 64:
        return capture
    return replace(capture, outputs=capture.outputs * (cards // 64))


def _listened(listener: Listener) -> Tap:
    tap = Tap()
    tap.listen(listener, lambda: None)
    return tap


def _cost(tap: Tap, captures: Sequence[Capture]) -> tuple[float, float]:
    """The seconds of CPU for each capture, and for the one that took longest."""
    took = []
    for one in captures:
        began = time.thread_time()
        tap(one, None)
        took.append(time.thread_time() - began)
    return sum(took) / len(took), max(took)


def of_hours(seconds: int) -> tuple[object, ...]:
    """What it takes to play so many seconds of a busy mixed node."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        node = MixedNode(folder)
        tool_paths = "".join(line + "\n" for line in node.config.splitlines() if line.startswith(("[", "path")))
        minute = recorded(dict(node.environment), folder, 60, tool_paths)
        path = folder / "hours.jsonl.gz"
        with gzip.open(path, "wb", compresslevel=6) as file:
            for one in again(minute, 60.0, seconds // 60):
                file.write(capture_line(one))
        size = path.stat().st_size / 2**20
        began = time.monotonic()
        (folder / "player").mkdir()
        with Daemon(folder / "player", arguments=("--replay", str(path), "--speed", str(_SPEED), "--once")) as daemon:
            ready = time.monotonic() - began
            process = psutil.Process(daemon.pid)
            time.sleep(seconds / _SPEED / 10)
            early = process.memory_info().rss / 2**20
            time.sleep(seconds / _SPEED * 0.9)
            late, cpu = process.memory_info().rss / 2**20, sum(process.cpu_times()[:2])
            assert len(daemon.document()["devices"]) > 10
    return (f"{seconds / 3600:.0f} h", f"{size:.1f}", f"{ready:.1f}", f"{early:.1f}", f"{late:.1f}", f"{cpu:.0f}")


if __name__ == "__main__":
    main()
