"""Measure what an agent keeps on disk while its store is away: real pages of eight cards, fifteen simulated seconds apart.

    python benchmarks/agents.py                   # a node of each kind, Prometheus and vmagent, three minutes
    python benchmarks/agents.py --node 8xascend   # another node
    python benchmarks/agents.py --quick           # check that the benchmark runs; the figures mean little

The agents write to an address on which no server listens. They scrape once a second, and each page is fifteen seconds later
than the one before, so that a scrape has the size of a scrape every fifteen seconds. docs/agents.md has the figures.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.extend(
    str(Path(__file__).resolve().parents[1] / name)
    for name in ("benchmarks", "daemon", "exporters", "parsers", "tests")
)

from fleet_parts.measure import Load, page_size, running_fleet
from fleet_parts.nodes import STEP_SECONDS
from fleet_parts.report import machine
from fleet_parts.series import table

from kits.ports import free_address

KINDS = ("8xnvidia", "8xamd", "8xascend")
DAY_SECONDS = 86_400
GIGABYTE = 1_000_000_000
# Only the first pages make the agent write all series names.
WARM_UP_SCRAPES = 10
QUEUE_FLAGS = ("-remoteWrite.queues=1", "-loggerLevel=ERROR")


@dataclass(frozen=True)
class Agent:
    """A program that buffers unsent samples in a folder."""

    title: str
    command: str

    def arguments(self, config: Path, folder: Path, store: str) -> list[str]:
        if self.command == "vmagent":
            queue = ["-remoteWrite.tmpDataPath=" + str(folder), f"-remoteWrite.url=http://{store}/api/v1/write"]
            return [f"-promscrape.config={config}", f"-httpListenAddr={free_address()}", *queue, *QUEUE_FLAGS]
        listen = f"--web.listen-address={free_address()}"
        return [*agent_flag(), f"--config.file={config}", f"--storage.agent.path={folder}", listen, "--log.level=error"]

    def config(self, targets: Sequence[str], store: str) -> str:
        """Return the configuration with the targets and, for Prometheus, the store. JSON is valid YAML."""
        scrapes = [{"job_name": "accelerators", "static_configs": [{"targets": list(targets)}]}]
        remote = {} if self.command == "vmagent" else {"remote_write": [{"url": f"http://{store}/api/v1/write"}]}
        return json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": scrapes, **remote})


AGENTS = (Agent("Prometheus agent", "prometheus"), Agent("vmagent", "vmagent"))


def agent_flag() -> list[str]:
    """Return the flag that starts this version of Prometheus in agent mode."""
    done = subprocess.run(["prometheus", "--help"], capture_output=True, text=True, check=False)
    return ["--agent"] if " --[no-]agent" in done.stdout + done.stderr else ["--enable-feature=agent"]


def bytes_per_scrape(agent: Agent, targets: Sequence[str], scrapes: int, folder: Path) -> float:
    """Return by how much the agent's folder grows with each scrape, after the agent has written all series names."""
    folder.mkdir()
    config, queue = folder / "config.yml", folder / "waiting"
    store = free_address()
    config.write_text(agent.config(targets, store), "utf-8")
    command = [agent.command, *agent.arguments(config, queue, store)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            time.sleep(WARM_UP_SCRAPES)
            before, begin = folder_bytes(queue), time.monotonic()
            time.sleep(scrapes)
            return (folder_bytes(queue) - before) / round(time.monotonic() - begin)
        finally:
            # After SIGTERM, Prometheus would try for a minute to send samples.
            process.kill()


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def table_row(kind: str, agent: Agent, series: float, scrape_bytes: float) -> list[str]:
    bytes_per_day = scrape_bytes * DAY_SECONDS / STEP_SECONDS
    cells = [
        f"{series:,.0f}",
        f"{scrape_bytes / 1000:.1f} kB",
        f"{scrape_bytes / series:.1f}",
        f"{bytes_per_day / 1e6:.0f} MB",
    ]
    return [kind, agent.title, *cells, f"{GIGABYTE / bytes_per_day * 24:,.0f} h"]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--node", action="append", help=f"a kind of node (default: {', '.join(KINDS)})")
    parser.add_argument("--scrapes", type=int, default=60, help="number of scrapes (default: 60)")
    parser.add_argument("--quick", action="store_true", help="five scrapes")
    options = parser.parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for kind in options.node or KINDS:
            folder = Path(name) / kind
            folder.mkdir()
            with running_fleet(Path(__file__).with_name("fleet.py"), Load(1, (kind,), 1.0, 0.0), folder) as targets:
                series = page_size(targets).series
                for agent in [agent for agent in AGENTS if shutil.which(agent.command)]:
                    scrapes = 5 if options.quick else options.scrapes
                    scrape_bytes = bytes_per_scrape(agent, targets, scrapes, folder / agent.command)
                    rows.append(table_row(kind, agent, series, scrape_bytes))
    headings = ["node", "agent", "series", "kept per scrape", "bytes per series", "a day at 15 s", "1 GB lasts"]
    print(f"{machine()}\n\n{table(headings, rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
