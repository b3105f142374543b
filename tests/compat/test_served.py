"""The real daemon serves other exporters' names at its own address and at the configured addresses."""

import gzip
import re
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.command_line import run_main
from kits.daemon import Daemon
from kits.ports import free_address
from telemetry_exporters.prometheus.compat import EXPORTERS

CARDS = ("--demo", "2xnvidia,1xascend")
UTILIZATION = "DCGM_FI_DEV_GPU_UTIL"


def fetched(url: str, **headers: str) -> tuple[int, str, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read()


def is_closed(address: str) -> bool:
    try:
        fetched(f"http://{address}/metrics")
    except urllib.error.URLError:
        return True
    return False


def with_port(address: str, more: str = "") -> str:
    return f'[compat.dcgm-exporter]\nlisten_address = "{address}"\n{more}'


def page_with(daemon: Daemon, url: str, text: bytes) -> bytes:
    def has_it() -> bool:
        try:
            return text in fetched(url)[2]
        except urllib.error.URLError:  # not listening yet
            return False

    daemon.until(has_it)
    return fetched(url)[2]


@pytest.fixture(scope="module")
def own_address() -> str:
    return free_address()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, own_address: str) -> Iterator[Daemon]:
    config = '[web]\ntelemetry_path = "/own"\n' + with_port(own_address, 'hostname_label = "hostname"\n')
    with Daemon(tmp_path_factory.mktemp("daemon"), config, CARDS, {"NODE_NAME": "n-7"}) as running:
        page_with(running, f"http://{running.address}/metrics/dcgm-exporter", UTILIZATION.encode())
        yield running


def test_every_page_is_served(daemon: Daemon) -> None:
    base = f"http://{daemon.address}"
    assert fetched(f"{base}/metrics/dcgm-exporter")[2].count(b"\n" + UTILIZATION.encode() + b"{") == 2
    status, kind, body = fetched(f"{base}/metrics/dcgm-exporter?name[]={UTILIZATION}", **{"Accept-Encoding": "gzip"})
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert gzip.decompress(body).decode().splitlines()[1] == f"# TYPE {UTILIZATION} gauge"
    assert len(gzip.decompress(body).splitlines()) == 4
    status, kind, body = fetched(f"{base}/metrics/dcgm-exporter", Accept="application/openmetrics-text;version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
    everybody = fetched(f"{base}/metrics/dcgm-exporter?vendors=all&name[]={UTILIZATION}")[2].decode()
    assert sorted(re.findall(r'vendor="(\w+)"', everybody)) == ["ascend", "nvidia", "nvidia"]
    assert [fetched(f"{base}/metrics/{name}")[0] for name in EXPORTERS] == [200] * len(EXPORTERS)
    listed = fetched(f"{base}/")[2].decode()
    assert all(f'href="./metrics/{name}"' in listed for name in EXPORTERS)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/metrics/dcgm", 404, "unknown exporter 'dcgm'; valid exporters: dcgm-exporter, nvidia_gpu_exporter, "),
        ("/metrics/" + "x" * 5000, 404, "…'; valid exporters: dcgm-exporter"),
        ("/metrics/%3Cb%3E%0Ax", 404, "unknown exporter"),
        ("/metrics/../metrics", 404, "unknown exporter '../metrics'"),
        ("/metrics/dcgm-exporter?version=3", 400, "invalid `version` '3': the versions of dcgm-exporter are 4.8, 4.9"),
        ("/metrics/dcgm-exporter?version=4.9&version=4.8", 400, "invalid `version` '4.9,4.8': the versions of"),
        ("/metrics/dcgm-exporter?version=", 400, "invalid `version` '': it is empty"),
        ("/metrics/xpumd?version=4.9", 400, "invalid `version` '4.9': xpumd has only one version"),
        (
            "/metrics/dcgm-exporter?vendors=amd",
            400,
            "invalid `vendors` 'amd'; use `vendors=all` or remove the parameter",
        ),
    ],
)
def test_wrong_request_is_explained(daemon: Daemon, path: str, status: int, words: str) -> None:
    found, kind, body = fetched(f"http://{daemon.address}{path}")
    assert (found, kind.partition(";")[0]) == (status, "text/plain")
    assert words in body.decode()
    assert len(body) < 500
    assert body.count(b"\n") == 1


def test_page_with_its_own_address_has_health_only(daemon: Daemon, own_address: str) -> None:
    page = page_with(daemon, f"http://{own_address}/metrics", UTILIZATION.encode()).decode()
    assert 'hostname="n-7"' in page
    assert "Hostname=" not in page
    assert fetched(f"http://{own_address}/health")[0] == 200
    assert fetched(f"http://{own_address}/")[2].startswith(
        b"device telemetry; /metrics has the metric names of dcgm-exporter"
    )
    for path in ("/api/v1/snapshot", "/metrics/npu-exporter", "/own", "/metrics/"):
        assert fetched(f"http://{own_address}{path}")[0] == 404, path


def test_reload_opens_closes_and_changes_pages(tmp_path: Path) -> None:
    def labels_of(path: str, family: str) -> str:
        return page_with(daemon, f"http://{path}", family.encode() + b"{").decode().split(family + "{")[1].split("}")[0]

    def reload(text: str) -> None:
        before = daemon.logged("configuration reloaded")
        daemon.write_config(text)
        daemon.signal(signal.SIGHUP)
        daemon.until(lambda: daemon.logged("configuration reloaded") > before)

    first, second = free_address(), free_address()
    new, old = "DCGM_FI_DEV_GPU_UTIL_RATIO", "DCGM_FI_DEV_GPU_UTIL"
    web = tmp_path / "web.yml"
    # "secret", as `htpasswd -nbBC 4` makes it.
    web.write_text("basic_auth_users:\n  u: $2y$04$Zqk2y6Pj7w2gJ3cJ7q9R4eM6o3oK3b2d8w6r4mY1m8s0n2Q4u6y8W\n")
    with Daemon(tmp_path, with_port(first), ("--demo", "1xnvidia")) as daemon:
        labels_of(f"{first}/metrics", old)
        with socket.create_server(("127.0.0.1", 0)) as occupied:
            reload(with_port(f"127.0.0.1:{occupied.getsockname()[1]}"))
            daemon.until(lambda: daemon.logged("compat.dcgm-exporter.listen_address: cannot listen on"))
            assert fetched(f"http://{first}/metrics")[0] == 200, "a port that is taken leaves all as it was"
        reload(with_port(second, 'version = "4.9"\n'))
        assert "hostname=" in labels_of(f"{second}/metrics", new)
        assert "hostname=" in labels_of(f"{daemon.address}/metrics/dcgm-exporter", new)
        assert "Hostname=" in labels_of(f"{second}/metrics?version=4.8", old), "the request wins"
        daemon.until(lambda: is_closed(first))
        reload(with_port(second, 'hostname_label = "Hostname"\n'))
        assert "Hostname=" in labels_of(f"{daemon.address}/metrics/dcgm-exporter?version=4.9", new)
        daemon.write_config(with_port(second, 'version = "3"\n'))
        daemon.signal(signal.SIGHUP)
        daemon.logs("compat.dcgm-exporter.version: the versions of dcgm-exporter are 4.8, 4.9")
        reload(f'[web]\nconfig_file = "{web}"\n{with_port(second)}')
        for url in (f"http://{second}/metrics", f"http://{daemon.address}/metrics/dcgm-exporter"):
            assert fetched(url)[0] == 401
        reload("")
        daemon.until(lambda: is_closed(second))


def test_taken_port_is_reported_and_tried_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        address = f"127.0.0.1:{occupied.getsockname()[1]}"
        with Daemon(tmp_path, with_port(address), ("--demo", "1xnvidia")) as daemon:
            daemon.until(lambda: daemon.document()["devices"])
            assert 'telemetry_compat_up{exporter="dcgm-exporter"} 0' in daemon.page()
            daemon.logs("compat.dcgm-exporter.listen_address: cannot listen on")
            found = run_main("doctor", "--config", str(daemon.config_path))
            assert "the address of compat.dcgm-exporter cannot be served" in found.stdout
            occupied.close()
            page_with(daemon, f"http://{address}/metrics", UTILIZATION.encode())
            daemon.until(lambda: 'telemetry_compat_up{exporter="dcgm-exporter"} 1' in daemon.page())


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("--names", "dcgm-exporter", "--names-version", "4.9"), 0, "DCGM_FI_DEV_BOARD_POWER_WATTS"),
        (("--names", "dcgm-exporter"), 0, "DCGM_FI_DEV_LOW_UTIL_VIOLATION"),
        (("--names", "xpumd", "--dashboard", "bad.json"), 64, "bad.json is not valid JSON"),
        (("--names", "xpumd"), 0, "hw_power_watts"),
    ],
)
def test_names_command_reports_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], status: int, words: str
) -> None:
    (tmp_path / "bad.json").write_text('{"panels": [' * 3)
    monkeypatch.chdir(tmp_path)
    done = run_main("metrics", *arguments)
    assert done.status == status, done.stderr
    assert words in done.stdout + done.stderr


def test_dashboard_is_compared_with_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, daemon: Daemon) -> None:
    (tmp_path / "board.json").write_text(
        '{"panels": [{"targets": [{"expr": "avg by (gpu) (DCGM_FI_DEV_POWER_USAGE{gpu=~\\"$gpu\\"}[5m]) / sum(DCGM_FI_DEV_FAN_SPEED) / node_load1 / DCGM_EXP_P2P_STATUS"}]}],'
        ' "templating": {"list": [{"query": {"query": "label_values(DCGM_FI_DEV_GPU_TEMP, gpu)"}}]}}'
    )
    monkeypatch.chdir(tmp_path)
    done = run_main("metrics", "--names", "dcgm-exporter", "--dashboard", "board.json", "--node", daemon.address)
    assert (done.status, done.stdout.splitlines()) == (
        2,
        [
            "DCGM_EXP_P2P_STATUS      not served: dcgm-exporter computes these counts itself",
            "DCGM_FI_DEV_FAN_SPEED    not served here: no nvidia device reports accelerator_fan_ratio × 100",
            "DCGM_FI_DEV_GPU_TEMP     served",
            "DCGM_FI_DEV_POWER_USAGE  served",
            "node_load1               not served: no known metric of dcgm-exporter has this name",
        ],
    )
