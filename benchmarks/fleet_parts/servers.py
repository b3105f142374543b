"""A real Prometheus and a real VictoriaMetrics that scrape a fleet, and the figures that each reports about itself."""

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
# Rules are evaluated as often as in deploy/prometheus.
EVALUATION_SECONDS = 15
_TIMEOUT_SECONDS = 120.0
_KIB = 1024


@dataclass(frozen=True)
class Disk:
    """The disk usage after everything was written: samples, series, and bytes by kind of data."""

    samples: int
    series: int
    bytes_by_part: Mapping[str, int]


@dataclass(frozen=True)
class Usage:
    """CPU time and memory of a process at one time."""

    cpu_seconds: float
    rss_bytes: int
    peak_rss_bytes: int


class Server:
    """A time series database in a child process with its own folder."""

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
        """Return the version of the Debian package. Debian's VictoriaMetrics does not report a version."""
        command = ["dpkg-query", "--show", "--showformat=${Version}", cls.package]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:  # The report continues without the version.
            return "of unknown version"
        return done.stdout or "of unknown version"

    def arguments(self, config: Path) -> list[str]:
        raise NotImplementedError

    def config(self, interval_seconds: float) -> Mapping[str, Any]:
        """Return the scrape configuration that both servers read. JSON is valid YAML."""
        interval = f"{round(interval_seconds * 1000)}ms"
        return {
            "global": {"scrape_interval": interval, "scrape_timeout": interval},
            "scrape_configs": [{"job_name": JOB, "file_sd_configs": [{"files": [str(self.targets_file)]}]}],
        }

    def start(self, interval_seconds: float) -> None:
        """Start the server with the targets in the file, and return when the server answers."""
        config = self._folder / "config.yml"
        config.write_text(json.dumps(self.config(interval_seconds)), "utf-8")
        log = (self._folder / "log").open("wb")
        with log:
            self._process = subprocess.Popen(
                [self.command, *self.arguments(config)], stdout=log, stderr=subprocess.STDOUT
            )
        self.wait_until(self._is_up, "the server answers")

    def close(self) -> None:
        """Stop the server and wait until the process has exited."""
        self._process.terminate()
        self._process.wait(timeout=_TIMEOUT_SECONDS)

    def wait_until(
        self, condition: Callable[[], object], event: str, timeout_seconds: float = _TIMEOUT_SECONDS
    ) -> None:
        """Wait until the condition is true. If it does not become true, end the benchmark with the server's last output."""
        end = time.monotonic() + timeout_seconds
        while not condition():
            if time.monotonic() > end or self._process.poll() is not None:
                last_output = (self._folder / "log").read_text("utf-8", "replace")[-2000:]
                raise SystemExit(f"{self.command}: this did not happen in time: {event}\n{last_output}")
            time.sleep(0.1)

    def fetch(self, path: str, data: bytes | None = None) -> bytes:
        with urllib.request.urlopen(f"http://{self._address}{path}", data, timeout=_TIMEOUT_SECONDS) as response:
            body: bytes = response.read()
            return body

    def query(self, expression: str) -> list[Mapping[str, Any]]:
        """Return the result of an instant query."""
        answer = json.loads(self.fetch(f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}"))
        result: list[Mapping[str, Any]] = answer["data"]["result"]
        return result

    def query_number(self, expression: str) -> float:
        """Return the number that a query yields, or 0 if the result is empty."""
        return sum(float(item["value"][1]) for item in self.query(expression))

    def sum_own_metrics(self, pattern: str) -> float:
        """Return the sum of the server's internal metrics whose name and labels match the whole pattern."""
        samples = re.finditer(rf"^(?:{pattern}) (\S+)$", self.fetch("/metrics").decode(), re.MULTILINE)
        return sum(float(sample[1]) for sample in samples)

    def usage(self) -> Usage:
        """Return the CPU time since the start, and the current and peak memory."""
        proc = Path(f"/proc/{self._process.pid}")
        ticks = (proc / "stat").read_text().rpartition(")")[2].split()[11:13]
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        current, peak = (int(status[key].split()[0]) * _KIB for key in ("VmRSS", "VmHWM"))
        return Usage(sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), current, peak)

    def ingested_samples(self) -> float:
        """Return the number of samples ingested since the start."""
        raise NotImplementedError

    def unwritten_bytes(self) -> Mapping[str, int]:
        """Return the bytes on disk outside finished blocks, by kind of data."""
        return {}

    def flush(self) -> Disk:
        """Write everything to disk in its final form and return the size."""
        raise NotImplementedError

    def _is_up(self) -> bool:
        try:
            return bool(self.fetch("/-/healthy"))
        except OSError:  # The server does not listen yet.
            return False


class Prometheus(Server):
    """Prometheus without rules: the cost of scraping and storing."""

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
        return self.sum_own_metrics(r"prometheus_tsdb_head_samples_appended_total(?:\{type=\"float\"\})?")

    def unwritten_bytes(self) -> Mapping[str, int]:
        data = self._folder / "data"
        return {"WAL": _allocated(data / "wal"), "head chunks": _allocated(data / "chunks_head")}

    def flush(self) -> Disk:
        name = json.loads(self.fetch("/api/v1/admin/tsdb/snapshot", b""))["data"]["name"]
        return block_sizes(self._folder / "data" / "snapshots" / name)


class PrometheusWithRules(Prometheus):
    """Prometheus with the project's alerts and recording rules, as in production."""

    name, title = "prometheus-with-rules", "Prometheus with our rules"

    def config(self, interval_seconds: float) -> Mapping[str, Any]:
        plain = super().config(interval_seconds)
        evaluation = {"evaluation_interval": f"{EVALUATION_SECONDS}s"}
        return {**plain, "global": {**plain["global"], **evaluation}, "rule_files": [f"{RULES}/*.yml"]}


class VictoriaMetrics(Server):
    """The single-node version. Rules would need vmalert."""

    name, title = "victoria-metrics", "VictoriaMetrics"
    command, package = "victoria-metrics", "victoria-metrics"

    def arguments(self, config: Path) -> list[str]:
        return [
            f"-promscrape.config={config}",
            "-promscrape.fileSDCheckInterval=1s",
            # Imported samples may be older than the default retention of a month.
            "-retentionPeriod=100y",
            f"-storageDataPath={self._folder}/data",
            f"-httpListenAddr={self._address}",
            "-search.latencyOffset=0s",
            "-search.maxUniqueTimeseries=10000000",
            "-loggerLevel=ERROR",
        ]

    def ingested_samples(self) -> float:
        return self.sum_own_metrics(r'vm_rows_inserted_total\{type="promscrape"\}')

    def flush(self) -> Disk:
        self.fetch("/internal/force_flush")
        self.fetch("/internal/force_merge")
        self.wait_until(lambda: not self._is_merging(), "all parts are merged")
        sizes = {"data": r"storage/[a-z]+", "index": r"indexdb(?:/[a-z]+)?"}
        return Disk(
            int(self.sum_own_metrics(r'vm_rows\{type="storage/[a-z]+"\}')),
            int(self.sum_own_metrics(r"vm_new_timeseries_created_total")),
            {
                name: int(self.sum_own_metrics(rf'vm_data_size_bytes\{{type="{kind}"\}}'))
                for name, kind in sizes.items()
            },
        )

    def put_lines(self, lines: bytes) -> None:
        """Import samples with timestamps in milliseconds."""
        self.fetch("/api/v1/import/prometheus", lines)

    def _is_merging(self) -> bool:
        time.sleep(0.5)
        return self.sum_own_metrics(r'vm_active_merges\{type="storage/[a-z]+"\}') > 0


def block_sizes(folder: Path) -> Disk:
    """Return the size of the Prometheus blocks in a folder."""
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
    """Return the bytes that the files of a folder occupy on disk. Preallocated files count up to their written part."""
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())


SERVERS: tuple[type[Server], ...] = (Prometheus, PrometheusWithRules, VictoriaMetrics)
