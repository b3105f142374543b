"""A real Prometheus and a real VictoriaMetrics that scrape a fleet, and what each tells of itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kits.ports import free_address

ROOT = Path(__file__).resolve().parent.parent.parent
RULES = ROOT / "deploy" / "prometheus" / "rules"
JOB = "accelerators"
# Alerts and recording rules run as often as in deploy/prometheus, however fast the scrapes are here.
EVALUATION_SECONDS = 15
_PATIENCE_SECONDS = 120.0
_KIB = 1024


@dataclass(frozen=True)
class Disk:
    """What lies on disk after everything was written out: samples, and bytes by what they hold."""

    samples: int
    series: int
    bytes_by_part: Mapping[str, int]


@dataclass(frozen=True)
class Usage:
    """A process at one moment."""

    cpu_seconds: float
    rss_bytes: int
    peak_rss_bytes: int


class Server:
    """A time series database as a child process with a folder of its own."""

    name = ""
    title = ""
    command = ""
    package = ""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True)
        self.targets_file = folder / "targets.json"
        self._address = free_address()

    @classmethod
    def is_installed(cls) -> bool:
        return shutil.which(cls.command) is not None

    @classmethod
    def version(cls) -> str:
        """The version of Debian's package; its VictoriaMetrics does not know its own."""
        command = ["dpkg-query", "--show", "--showformat=${Version}", cls.package]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:  # the report goes on without it
            return "of unknown version"
        return done.stdout or "of unknown version"

    def arguments(self, config: Path) -> list[str]:
        raise NotImplementedError

    def config(self, interval_seconds: float) -> Mapping[str, Any]:
        """The scrape configuration, in the form that both read; JSON is YAML."""
        interval = f"{round(interval_seconds * 1000)}ms"
        return {
            "global": {"scrape_interval": interval, "scrape_timeout": interval},
            "scrape_configs": [{"job_name": JOB, "file_sd_configs": [{"files": [str(self.targets_file)]}]}],
        }

    def start(self, interval_seconds: float) -> None:
        """Start with the targets that the file names by now; returns once it answers."""
        config = self._folder / "config.yml"
        config.write_text(json.dumps(self.config(interval_seconds)), "utf-8")
        log = (self._folder / "log").open("wb")
        with log:
            self._process = subprocess.Popen(
                [self.command, *self.arguments(config)], stdout=log, stderr=subprocess.STDOUT
            )
        self.until(self._is_up, "the server answers")

    def close(self) -> None:
        """End it and wait for that."""
        self._process.terminate()
        self._process.wait(timeout=_PATIENCE_SECONDS)

    def until(self, condition: Callable[[], object], what: str, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        """Wait until it holds; ends the benchmark with the server's last words when it does not come to."""
        end = time.monotonic() + patience_seconds
        while not condition():
            if time.monotonic() > end or self._process.poll() is not None:
                words = (self._folder / "log").read_text("utf-8", "replace")[-2000:]
                raise SystemExit(f"{self.command}: did not come about: {what}\n{words}")
            time.sleep(0.1)

    def fetch(self, path: str, data: bytes | None = None) -> bytes:
        with urllib.request.urlopen(f"http://{self._address}{path}", data, timeout=_PATIENCE_SECONDS) as response:
            body: bytes = response.read()
            return body

    def query(self, expression: str) -> list[Mapping[str, Any]]:
        """The result of an instant query."""
        answer = json.loads(self.fetch(f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}"))
        result: list[Mapping[str, Any]] = answer["data"]["result"]
        return result

    def number(self, expression: str) -> float:
        """The one number that a query gives, 0 where there is none."""
        return sum(float(item["value"][1]) for item in self.query(expression))

    def own(self, pattern: str) -> float:
        """The sum of the server's own metrics whose name and labels match the pattern in full."""
        found = re.finditer(rf"^(?:{pattern}) (\S+)$", self.fetch("/metrics").decode(), re.MULTILINE)
        return sum(float(each[1]) for each in found)

    def usage(self) -> Usage:
        """CPU time since its start, and memory: now and at most."""
        proc = Path(f"/proc/{self._process.pid}")
        ticks = (proc / "stat").read_text().rpartition(")")[2].split()[11:13]
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        now, most = (int(status[key].split()[0]) * _KIB for key in ("VmRSS", "VmHWM"))
        return Usage(sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), now, most)

    def ingested_samples(self) -> float:
        """How many samples were taken in since the start."""
        raise NotImplementedError

    def unwritten(self) -> Mapping[str, int]:
        """What lies on disk besides finished blocks, in bytes by name."""
        return {}

    def flushed(self) -> Disk:
        """Write everything out in its final form and measure that."""
        raise NotImplementedError

    def _is_up(self) -> bool:
        try:
            return bool(self.fetch("/-/healthy"))
        except OSError:  # it does not listen yet
            return False


class Prometheus(Server):
    """Without rules: what scraping and storing cost."""

    name, title, command, package = "prometheus", "Prometheus", "prometheus", "prometheus"

    def arguments(self, config: Path) -> list[str]:
        return [
            f"--config.file={config}",
            f"--storage.tsdb.path={self._folder}/data",
            f"--web.listen-address={self._address}",
            "--web.enable-admin-api",
            "--log.level=warn",
        ]

    def ingested_samples(self) -> float:
        return self.own(r"prometheus_tsdb_head_samples_appended_total(?:\{type=\"float\"\})?")

    def unwritten(self) -> Mapping[str, int]:
        data = self._folder / "data"
        return {"WAL": _allocated(data / "wal"), "head chunks": _allocated(data / "chunks_head")}

    def flushed(self) -> Disk:
        name = json.loads(self.fetch("/api/v1/admin/tsdb/snapshot", b""))["data"]["name"]
        return blocks(self._folder / "data" / "snapshots" / name)


class PrometheusWithRules(Prometheus):
    """With our alerts and recording rules, as it is meant to run."""

    name, title = "prometheus-with-rules", "Prometheus with our rules"

    def config(self, interval_seconds: float) -> Mapping[str, Any]:
        plain = super().config(interval_seconds)
        own = {"evaluation_interval": f"{EVALUATION_SECONDS}s"}
        return {**plain, "global": {**plain["global"], **own}, "rule_files": [f"{RULES}/*.yml"]}


class VictoriaMetrics(Server):
    """The single-node version; rules would be vmalert's."""

    name, title = "victoria-metrics", "VictoriaMetrics"
    command, package = "victoria-metrics", "victoria-metrics"

    def arguments(self, config: Path) -> list[str]:
        return [
            f"-promscrape.config={config}",
            "-promscrape.fileSDCheckInterval=1s",
            # What is imported may be older than the month that it keeps by default.
            "-retentionPeriod=100y",
            f"-storageDataPath={self._folder}/data",
            f"-httpListenAddr={self._address}",
            "-search.latencyOffset=0s",
            "-search.maxUniqueTimeseries=10000000",
            "-loggerLevel=ERROR",
        ]

    def ingested_samples(self) -> float:
        return self.own(r'vm_rows_inserted_total\{type="promscrape"\}')

    def flushed(self) -> Disk:
        self.fetch("/internal/force_flush")
        self.fetch("/internal/force_merge")
        self.until(lambda: not self._is_merging(), "all parts are merged")
        sizes = {"data": r"storage/[a-z]+", "index": r"indexdb(?:/[a-z]+)?"}
        return Disk(
            int(self.own(r'vm_rows\{type="storage/[a-z]+"\}')),
            int(self.own(r"vm_new_timeseries_created_total")),
            {name: int(self.own(rf'vm_data_size_bytes\{{type="{kind}"\}}')) for name, kind in sizes.items()},
        )

    def put_lines(self, lines: bytes) -> None:
        """Take in samples with timestamps, in milliseconds."""
        self.fetch("/api/v1/import/prometheus", lines)

    def _is_merging(self) -> bool:
        time.sleep(0.5)
        return self.own(r'vm_active_merges\{type="storage/[a-z]+"\}') > 0


def blocks(folder: Path) -> Disk:
    """The blocks of a Prometheus in a folder."""
    metas = [json.loads(file.read_text()) for file in folder.glob("*/meta.json")]
    return Disk(
        sum(meta["stats"]["numSamples"] for meta in metas),
        max((meta["stats"]["numSeries"] for meta in metas), default=0),
        {
            "chunks": sum(file.stat().st_size for file in folder.glob("*/chunks/*")),
            "index": sum(file.stat().st_size for file in folder.glob("*/index")),
        },
    )


def _allocated(folder: Path) -> int:
    """Bytes that the files of a folder take on disk; files that are made long in advance count as far as they are."""
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())


SERVERS: tuple[type[Server], ...] = (Prometheus, PrometheusWithRules, VictoriaMetrics)
