"""Measure on a node with a real NVIDIA GPU. benchmarks/on_gpu.sh starts the parts in turn; each writes its result to the folder.

If a part fails, the summary names it, and the other parts still run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from side_by_side import installs, measured, nodes, processes, tables
from side_by_side.contestants import (
    Contestant,
    NotServingError,
    Plan,
    Running,
    installed_environment,
    measure_round,
    running,
)
from side_by_side.installs import MissingPeer
from side_by_side.ours import COMMAND, telemetry

from device_telemetry import Recorder
from kits.ports import free_port

_HERE = Path(__file__).resolve().parent
_MIB = 1 << 20
_SECTION_SECONDS = (1.0, 2.5, 7.0)
# (path in `nvidia-smi -q -x`, metric, label, conversion factor)
_PARITY = (
    ("temperature/gpu_temp", "temperature_celsius", "core", 1),
    ("temperature/memory_temp", "temperature_celsius", "memory", 1),
    ("utilization/gpu_util", "utilization_ratio", "", 0.01),
    ("fb_memory_usage/total", "memory_total_bytes", "", _MIB),
    ("fb_memory_usage/used", "memory_used_bytes", "", _MIB),
    ("gpu_power_readings/average_power_draw", "power_average_watts", "", 1),
    ("gpu_power_readings/instant_power_draw", "power_instant_watts", "", 1),
    ("gpu_power_readings/current_power_limit", "power_cap_watts", "", 1),
    ("clocks/sm_clock", "clock_hertz", "sm", 1e6),
    ("clocks/mem_clock", "clock_hertz", "memory", 1e6),
    ("pci/pci_gpu_link_info/pcie_gen/current_link_gen", "pcie_link_generation", "", 1),
)


@dataclass(frozen=True)
class Options:
    """The requested work: the folder of the results, the seconds of a part, and whether other exporters are measured, too."""

    out: Path
    seconds: float
    includes_peers: bool


def main() -> int:
    """Run all parts. Return 1 if a part failed."""
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    begin, lines, failed = time.monotonic(), [], False
    parts: tuple[tuple[str, Callable[[Options], str]], ...] = (
        ("what the calls cost", measure_calls),
        ("idle", lambda options: side_by_side(options, "idle")),
        ("under load", lambda options: with_load(options, lambda: side_by_side(options, "load"))),
        ("beside nvidia-smi", parity),
        ("energy", lambda options: with_load(options, lambda: energy(options))),
        ("a recording under load", lambda options: with_load(options, lambda: recording(options))),
    )
    for name, part in parts:
        try:
            text = part(options)
        except (OSError, subprocess.SubprocessError, NotServingError, ValueError) as error:
            text, failed = f"failed: {type(error).__name__}: {error}", True
        lines.append(f"== {name}\n{text.strip()}\n")
        print(lines[-1], flush=True)
    lines.append(f"{time.monotonic() - begin:.0f} s in all\n")
    (options.out / "summary.txt").write_text("\n".join(lines), "utf-8")
    print(f"results: {options.out}")
    return int(failed)


def arguments() -> Options:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder of the results (default: a new folder in tests/nvml)")
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of each long part")
    parser.add_argument("--alone", action="store_true", help="measure no other exporters")
    parsed = parser.parse_args()
    return Options(parsed.out or folder_name(), parsed.seconds, not parsed.alone)


def folder_name() -> Path:
    """Return a folder named after GPU and driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
        name = pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0))
        driver = pynvml.nvmlSystemGetDriverVersion()
    except pynvml.NVMLError as error:
        sys.exit(f"on_gpu.py: no NVIDIA GPU can be opened: {error}")
    return _HERE.parent / "tests/nvml" / re.sub(r"[^a-z0-9.]+", "-", f"{name}-{driver}".lower())


def measure_calls(options: Options) -> str:
    command = [sys.executable, str(_HERE / "nvml_cost.py"), "--seconds", str(options.seconds)]
    done = subprocess.run(
        [*command, "--json", str(options.out / "nvml-cost.json")], capture_output=True, text=True, check=True
    )
    (options.out / "nvml-cost.txt").write_text(done.stdout, "utf-8")
    return "\n".join(done.stdout.splitlines()[:12])


def contestants(options: Options, folder: Path) -> Iterator[Contestant]:
    """Yield our daemon with default settings, and the installed exporters."""
    yield telemetry(folder / "telemetry", nodes.POWER)
    if not options.includes_peers:
        return
    port = free_port()
    nvitop = installs.install_from_pypi("nvitop-exporter", nodes.NVITOP_VERSION, "nvitop-exporter")
    if not isinstance(nvitop, MissingPeer):
        yield Contestant(nodes.NVITOP, (str(nvitop), "--bind-address", "127.0.0.1", "--port", str(port)), port, b"gpu_")
    port = free_port()
    installed = installs.install_from_cargo("all-smi", nodes.ALL_SMI_VERSION, builds=False)
    program = shutil.which("all-smi") if isinstance(installed, MissingPeer) else str(installed)
    if program:
        environment = installed_environment({"RUST_LOG": "error"})
        command = (program, "api", "--port", str(port))
        yield Contestant(nodes.ALL_SMI, command, port, b"all_smi_gpu_power", environment)


def side_by_side(options: Options, name: str) -> str:
    """Return CPU, memory and scrape times of all contestants running at once, each scraped once a second."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        started: list[Running] = []
        for contestant in contestants(options, Path(folder)):
            # Peers may fail to start. A failure of our own daemon is detected below.
            with contextlib.suppress(NotServingError):
                started.append(stack.enter_context(running(contestant)))
        if not started or started[0].contestant.name != "telemetry":
            raise ValueError("The daemon exposes no power reading. See build/benchmarks/logs/telemetry.log")
        before = {
            program.contestant.name: processes.user_and_system_seconds(program.process.pid) for program in started
        }
        begin = time.perf_counter()
        plan = Plan(1, max(1, round(options.seconds)), settle=min(5.0, options.seconds))
        rounds = measure_round(random.sample(started, len(started)), plan)
        passed = time.perf_counter() - begin
        after = {program.contestant.name: processes.user_and_system_seconds(program.process.pid) for program in started}
    figures = (measured.CPU, measured.RSS, measured.P50, measured.P99, measured.SERIES)
    rows = [
        [
            name,
            *(tables.number(1e3 * (after[name][kind] - before[name][kind]) / passed) for kind in (0, 1)),
            *(tables.number(figure.value(round_) or 0.0) for figure in figures),
        ]
        for name, round_ in rounds.items()
    ]
    head = ("", "user, ms/s", "kernel, ms/s", *(figure.heading for figure in figures))
    text = tables.table(head, rows)
    (options.out / f"side-by-side-{name}.txt").write_text(f"{text}\n", "utf-8")
    return text


@contextmanager
def gpu_load() -> Iterator[bool]:
    """Keep the GPU busy in the context. Yield False if that is not possible."""
    command = [sys.executable, str(_HERE / "gpu_load.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            answer = process.stdout.readline() if process.stdout else ""
            if answer.strip() != "busy":
                print(f"no load: {answer.strip()}", flush=True)
            yield answer.strip() == "busy"
        finally:
            process.kill()


def with_load(options: Options, part: Callable[[], str]) -> str:  # noqa: ARG001  # all parts have the same parameters
    """Run a part while the GPU is busy. If it stays idle, the result says so."""
    with gpu_load() as is_busy:
        return part() if is_busy else f"(without load)\n{part()}"


@contextmanager
def daemon() -> Iterator[str]:
    """Run our daemon and yield its address."""
    with tempfile.TemporaryDirectory() as folder:
        ours = telemetry(Path(folder) / "telemetry", nodes.POWER)
        with running(ours):
            yield f"127.0.0.1:{ours.port}"


def parity(options: Options) -> str:
    """Return a table of our readings and of nvidia-smi's readings from the same second."""
    if shutil.which("nvidia-smi") is None:
        raise ValueError("nvidia-smi is not installed")
    with daemon() as address:
        node = document(address)
        smi = subprocess.run(["nvidia-smi", "-q", "-x"], capture_output=True, text=True, check=True).stdout
    rows = list(compared(ET.fromstring(smi).findall("gpu"), whole_cards(node)))
    text = tables.table(("GPU", "reading", "nvidia-smi", "ours"), rows)
    (options.out / "parity.txt").write_text(f"{text}\n", "utf-8")
    return text


def document(address: str) -> Mapping[str, Any]:
    """Return the daemon's JSON document directly after a poll of the counters."""
    for pause in (1.0, 0.0):
        with urllib.request.urlopen(f"http://{address}/api/v1/snapshot?counters=now") as answer:
            snapshot: Mapping[str, Any] = json.load(answer)
        time.sleep(pause)  # The second request shows the poll that the first one caused.
    return snapshot


def whole_cards(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return NVIDIA's cards in the order of their index."""
    cards = [device for device in node["devices"] if device["vendor"] == "nvidia" and device["parent"] is None]
    return sorted(cards, key=lambda device: device["index"])


def compared(gpus: Sequence[ET.Element], ours: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    """Yield a row for each reading that our daemon or nvidia-smi has."""
    for number, (gpu, device) in enumerate(zip(gpus, ours, strict=False)):
        for path, metric, label, factor in _PARITY:
            text = (gpu.findtext(path) or "").split(" ")[0]
            reading = device["readings"].get(metric)
            value = reading.get(label) if label and isinstance(reading, dict) else reading
            if text or value is not None:
                is_number = re.fullmatch(r"-?[0-9.]+", text)
                theirs = tables.number(float(text) * factor) if is_number else text or "–"
                yield [str(number), f"{metric} {label}".strip(), theirs, "–" if value is None else tables.number(value)]


def energy(options: Options) -> str:
    """Return a table of the energy of sections, as measured by a Recorder and by NVML's energy counter."""
    import pynvml

    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(pynvml.nvmlDeviceGetCount())]

    def counter_joules() -> float:
        return sum(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) for handle in handles) / 1e3

    rows = []
    try:
        with daemon() as address:
            for seconds in _SECTION_SECONDS:
                with Recorder("all", url=address) as recorder:
                    time.sleep(1.2)  # the counters were read at the start of the outer section
                    with recorder("section"):
                        before = counter_joules()
                        time.sleep(seconds)  # the duration of the section under test
                        joules = counter_joules() - before
                    results = recorder.results("section")
                recorded = results.get("energy_joules", 0.0)
                ratio = f"{recorded / joules:.4f}" if joules else "–"
                rows.append(
                    [f"{seconds:g} s", f"{joules:.1f}", f"{recorded:.1f}", ratio, f"{results.get('exact', 0.0):g}"]
                )
    except pynvml.NVMLError as error:
        raise ValueError(f"The energy counter cannot be read: {error}") from None
    finally:
        pynvml.nvmlShutdown()
    text = tables.table(("section", "counter, J", "Recorder, J", "ratio", "exact"), rows)
    (options.out / "energy.txt").write_text(f"{text}\n", "utf-8")
    return text


def recording(options: Options) -> str:
    """Write a masked recording of all sources, which can be used as a capture in tests. Return its name and size."""
    path = options.out / "load.jsonl.gz"
    seconds = min(20.0, options.seconds)
    command = [*COMMAND, "record", "-o", str(path), "--for", f"{seconds:g}s"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        raise ValueError(done.stderr.strip()[-300:])
    return f"{path.name}: {path.stat().st_size} bytes; {done.stderr.strip().splitlines()[-1:]}"


if __name__ == "__main__":
    sys.exit(main())
