"""Every port in hand-written files is the daemon's default port, or listed here with its program."""

import re
from collections.abc import Iterator
from pathlib import Path

from telemetry_daemon.config.settings import DEFAULT_PORT

ROOT = Path(__file__).resolve().parents[2]
PLACES = (
    "*.md",
    "Makefile",
    ".ci/*",
    "daemon/**/*.py",
    "deploy/**/*",
    "docs/**/*.md",
    "grafana/**/*.py",
    "grafana/**/*.md",
)
OTHERS = {
    3000: "Grafana",
    4318: "OpenTelemetry's protocol over HTTP",
    8080: "the near end of a tunnel",
    8086: "InfluxDB",
    8125: "StatsD",
    8428: "VictoriaMetrics",
    8883: "MQTT over TLS",
    9090: "Prometheus",
    9093: "Alertmanager",
    9095: "the page of an agent on its own node",
    9100: "node_exporter, whose forms of address are ours",
    9400: "NVIDIA's exporter",
    10051: "Zabbix",
    19400: "where 0.1 listened, in the notes on upgrades",
    65534: "the group of the user `nobody`",
}
# Ports of addresses, and ports in files of containers and charts; no times or bus addresses.
PORT = re.compile(r"(?:(?<![0-9a-f]{4}):|EXPOSE |\bport: |\bport-forward POD )([0-9]{4,5})(?![0-9a-f:.])")


def strangers(text: str, own_port: int) -> Iterator[tuple[int, int]]:
    for number, line in enumerate(text.splitlines(), 1):
        for port in map(int, PORT.findall(line)):
            if port != own_port and port not in OTHERS:
                yield number, port


def test_each_port_is_the_default_or_listed_with_its_program() -> None:
    files = {file for pattern in PLACES for file in ROOT.glob(pattern) if file.suffix != ".json" and file.is_file()}
    files = {file for file in files if "node_modules" not in file.parts}  # what `make dashboards-preview` installs
    found = [
        f"{file.relative_to(ROOT)}:{number}: port {port} is neither DEFAULT_PORT ({DEFAULT_PORT}) nor in OTHERS"
        for file in sorted(files)
        for number, port in strangers(file.read_text("utf-8"), DEFAULT_PORT)
    ]
    assert found == []
