"""Telegraf and the OpenTelemetry Collector run their files, where somebody has built them: no package of Debian has either.

Both are built with Go: `telegraf` from github.com/influxdata/telegraf, `otelcol` by its builder from the receivers prometheus and
otlp, the exporters otlphttp and prometheusremotewrite, and the extension file_storage.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from deploy.outages import PASSWORD, Pair, Program, Store, Target, placed, prometheus_store, scraped
from kits.daemon import Daemon
from kits.ports import free_address
from kits.prometheus import tool
from kits.waiting import until
from kits.web_server import Pki, basic, make_pki

Series = frozenset[tuple[str, str]]
pytestmark = [pytest.mark.needs("prometheus", "openssl"), pytest.mark.timeout(300)]
# Who scraped it, and by what.
ADDED = {"job", "instance", "cluster", "pushed", "otel_scope_name"}
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)+)"')


def telegraf(folder: Path, address: str, store: Store, pki: Pki) -> Program:
    changes = placed(folder, "telegraf.conf", address, store, pki, "telegraf")
    text = (folder / "telegraf.conf").read_text()
    # Only systemd hands over passwords in its way.
    text = text.replace('[[secretstores.systemd]]\n  id = "credentials"\n', "").replace(
        "@{credentials:password}", PASSWORD
    )
    text = text.replace('"15s"', '"1s"').replace("localhost:19820", address).replace('"example"', '"telegraf"')
    text = text.replace("/etc/telemetry-agent", str(folder))
    assert changes
    (folder / "telegraf.conf").write_text(text)
    return Program([tool("telegraf"), "--config=telegraf.conf"], folder)


def collector(folder: Path, address: str, gateway: str, store: Store, pki: Pki) -> Program:
    placed(folder, "otelcol.yaml", address, store, pki, "otelcol")
    config = folder / "otelcol.yaml"
    config.write_text(config.read_text().replace("store.example.com:4318", gateway))
    return Program([tool("otelcol"), "--config=otelcol.yaml"], folder)


def gateway_to(store: Store, folder: Path, address: str, pki: Pki) -> Program:
    """A collector that takes OTLP for a Prometheus of Debian, which knows only remote write."""
    folder.mkdir()
    own = {"cert_file": str(pki.server.certificate), "key_file": str(pki.server.key)}
    sent = {
        "endpoint": f"https://{store.address}/api/v1/write",
        "tls": {"ca_file": str(pki.authority.certificate)},
        "headers": basic("agent", PASSWORD),
        "add_metric_suffixes": False,
        "target_info": {"enabled": False},
    }
    pipelines = {"metrics": {"receivers": ["otlp"], "exporters": ["prometheusremotewrite"]}}
    document = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": address, "tls": own}}}},
        "exporters": {"prometheusremotewrite": sent},
        "service": {"pipelines": pipelines, "telemetry": {"metrics": {"level": "none"}}},
    }
    (folder / "gateway.yaml").write_text(yaml.safe_dump(document))
    return Program([tool("otelcol"), "--config=gateway.yaml"], folder)


@contextlib.contextmanager
def a_node(folder: Path) -> Iterator[Daemon]:
    folder.mkdir()
    with Daemon(folder, arguments=("--demo", "2xnvidia")) as daemon:
        daemon.until(lambda: "accelerator_power_watts{" in daemon.page())
        yield daemon


def stored(store: Store, agent: str) -> set[Series]:
    query = urllib.parse.urlencode(
        {"query": f'{{cluster="{agent}",__name__=~"accelerator_.+|telemetry_.+|process_.+"}}'}
    )
    answer = store.fetch(f"/api/v1/query?{query}")
    found = json.loads(answer)["data"]["result"] if answer else []
    return {frozenset((name, value) for name, value in item["metric"].items() if name not in ADDED) for item in found}


def on_page(page: str) -> set[Series]:
    found = set()
    for line in (line for line in page.splitlines() if not line.startswith("#")):
        name, _, labels = line.rpartition(" ")[0].partition("{")
        found.add(
            frozenset([("__name__", name), *((key, json.loads(f'"{text}"')) for key, text in _LABEL.findall(labels))])
        )
    return found


@pytest.mark.needs("telegraf")
def test_telegraf_keeps_names_and_labels(tmp_path: Path) -> None:
    pki = make_pki(tmp_path)
    with (
        prometheus_store(tmp_path / "store", pki) as store,
        a_node(tmp_path / "node") as node,
        telegraf(tmp_path / "agent", node.address, store, pki),
    ):
        until(lambda: on_page(node.page()) <= stored(store, "telegraf"), "the page is in the store")


@pytest.mark.needs("otelcol")
def test_the_collector_keeps_names_and_labels(tmp_path: Path) -> None:
    pki, address = make_pki(tmp_path), free_address()
    with (
        prometheus_store(tmp_path / "store", pki) as store,
        a_node(tmp_path / "node") as node,
        gateway_to(store, tmp_path / "gateway", address, pki),
        collector(tmp_path / "agent", node.address, address, store, pki),
    ):
        until(lambda: on_page(node.page()) <= stored(store, "otelcol"), "the page is in the store")


@pytest.mark.needs("otelcol")
def test_the_collector_sends_what_waited_even_after_a_crash(tmp_path: Path) -> None:
    pki, address = make_pki(tmp_path), free_address()
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(prometheus_store(tmp_path / "store", pki))
        gateway = stack.enter_context(gateway_to(store, tmp_path / "gateway", address, pki))
        target = stack.enter_context(Target().running())
        agent = stack.enter_context(collector(tmp_path / "agent", target.address, address, store, pki))
        pair = Pair("otelcol", agent, target, store)
        scraped([pair], 3)
        gateway.end(signal.SIGKILL)
        for number in (signal.SIGTERM, signal.SIGKILL):
            scraped([pair], 4)
            pair.restart(number)
        scraped([pair], 4)
        gateway.start()
        pair.wait_until_sent()
        time.sleep(2)  # series of the last scrape may come in a second request
        assert pair.complaints() == []
