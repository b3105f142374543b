"""Our daemon beside what one would run or write instead, in one run each.

    python benchmarks/peers.py [--quick]

* the same series by prometheus_client's own server, for 1, 8, 64 and 128 simulated devices of 47 readings or so each
* the host's readings beside node_exporter's collectors
* nvidia_gpu_exporter, which starts nvidia-smi: here a script that prints at once what the tool takes half a second for
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from side_by_side import installs, summary, tables
from side_by_side.contestants import (
    Contestant,
    free_port,
    installed_environment,
    running,
    side_by_side,
    started,
)
from side_by_side.fake_nvidia_smi import write_tool
from side_by_side.options import Extent, extent
from side_by_side.ours import telemetry

DEVICE_COUNTS = (1, 8, 64, 128)
# Until the polls that come once a minute have been made, too.
SLOW_POLLS_SECONDS = 5.0
EVERY_SECOND = "[sources.{0}]\ninterval = 1.0\n"
GPU_EXPORTER, GPU_EXPORTER_VERSION = "github.com/utkuozdemir/nvidia_gpu_exporter", "v1.14.0"


def main() -> None:
    """Print the tables."""
    asked = extent(__doc__ or "")
    tables.print_machine()
    with tempfile.TemporaryDirectory() as name:
        for count in DEVICE_COUNTS:
            print(f"\n{count} simulated devices, set and scraped once a second\n")
            contest(with_client_python(Path(name) / str(count), count), asked)
        print("\nthe host alone, scraped once a second\n")
        contest(hosts(Path(name) / "host"), asked)
        print("\n8 GPUs through nvidia-smi beside 8 simulated ones of ours\n")
        contest(with_nvidia_smi(Path(name) / "smi", 8), asked)


def contest(contestants: Iterable[Contestant | installs.Missing], asked: Extent) -> None:
    """Run those that are there beside one another and print their table."""
    found = list(contestants)
    for each in found:
        if isinstance(each, installs.Missing):
            print(each, flush=True)
    there = [each for each in found if isinstance(each, Contestant)]
    if len(there) > 1:
        serving, starts = started(there, asked.starts)
        summary.print_contest(side_by_side(serving, asked.rounds, asked.seconds), starts)


def simulated(folder: Path, count: int) -> Contestant:
    """Ours with so many simulated GPUs; the simulation is in its CPU time."""
    config = EVERY_SECOND.format("nvml")
    return telemetry(folder, "accelerator_power_watts", config, ("--demo", f"{count}xnvidia"))


def with_client_python(folder: Path, count: int) -> list[Contestant]:
    """Ours, and a server that has the series of our page as Gauges."""
    ours = simulated(folder, count)
    with running(ours) as found:
        time.sleep(SLOW_POLLS_SECONDS)
        (folder / "page").write_bytes(found.plain_page())
    port = free_port()
    environment = installed_environment({"PYTHONPATH": str(Path(__file__).parent)})
    command = (sys.executable, "-m", "side_by_side.client_page", str(port), str(folder / "page"))
    return [ours, Contestant("prometheus_client", command, port, b"sets_total", environment)]


def hosts(folder: Path) -> list[Contestant | installs.Missing]:
    """Ours where there is no accelerator, and node_exporter as installed and with the collectors that match."""
    folder.mkdir()
    ours = telemetry(folder, "telemetry_host_cpu_utilization_ratio", EVERY_SECOND.format("host"))
    program = installs.from_debian("prometheus-node-exporter", "prometheus-node-exporter")
    if isinstance(program, installs.Missing):
        return [ours, program]
    few = ("--collector.disable-defaults", *(f"--collector.{name}" for name in ("cpu", "meminfo", "loadavg")))
    return [ours, node_exporter(program, "all", ()), node_exporter(program, "3 collectors", few)]


def node_exporter(program: Path, words: str, flags: tuple[str, ...]) -> Contestant:
    """node_exporter with some collectors."""
    port = free_port()
    command = (str(program), f"--web.listen-address=127.0.0.1:{port}", "--log.level=error", *flags)
    return Contestant(f"node_exporter, {words}", command, port, b"node_memory_MemTotal_bytes")


def with_nvidia_smi(folder: Path, count: int) -> list[Contestant | installs.Missing]:
    """Ours, and the exporter that starts nvidia-smi for each scrape."""
    program = installs.from_go(f"{GPU_EXPORTER}/cmd/nvidia_gpu_exporter", GPU_EXPORTER, GPU_EXPORTER_VERSION)
    ours = simulated(folder, count)
    if isinstance(program, installs.Missing):
        return [ours, program]
    tools = write_tool(folder / "tools", count)
    port = free_port()
    command = (str(program), f"--web.listen-address=127.0.0.1:{port}")
    environment = installed_environment({"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"})
    return [ours, Contestant("nvidia_gpu_exporter", command, port, b"nvidia_smi_power_draw", environment)]


if __name__ == "__main__":
    main()
