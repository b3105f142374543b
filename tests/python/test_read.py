"""`read`, `watch`, `visible` and the collector with a daemon, with tools, without either, and with another program."""

import inspect
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import device_telemetry
from device_telemetry import (
    Device,
    NotReachableError,
    NotUnderstoodError,
    TelemetryError,
    UnknownNameError,
    read,
    visible,
    watch,
)
from device_telemetry.prometheus import Collector
from kits.daemon import Daemon
from kits.ports import free_address
from kits.web_server import running_server
from telemetry_daemon.web.addresses import local_socket_in
from telemetry_daemon.web.messages import Response

# The public names and their parameters: a change needs a new major version.
PUBLIC = {
    "Device": "(vendor, index, id, device, model, uuid, bus_id, up, parent, readings, absent, energy_age_seconds=None)",
    "Node": "(hostname, time, devices, sources)",
    "NotReachableError": "",
    "NotUnderstoodError": "",
    "Recorder": "(devices='visible', interval=1.0, url=None, source=None)",
    "Source": "(source, state, reason)",
    "TelemetryError": "",
    "UnknownNameError": "",
    "read": "(url=None, timeout=20.0)",
    "visible": "(devices, environment=…)",
    "watch": "(interval=2.0, url=None)",
}


def signature(thing: object) -> str:
    if isinstance(thing, type) and issubclass(thing, Exception):
        return ""
    parameters = inspect.signature(thing).parameters.values()  # type: ignore[arg-type]  # each of them is called
    texts = (item.name if item.default is item.empty else f"{item.name}={item.default!r}" for item in parameters)
    return f"({', '.join('environment=…' if text.startswith('environment=') else text for text in texts)})"


def test_public_names_are_pinned() -> None:
    assert {name: signature(getattr(device_telemetry, name)) for name in device_telemetry.__all__} == PUBLIC


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("node"), arguments=("--demo", "2xnvidia,1xascend")) as running:
        running.until(lambda: len(running.document()["devices"]) == 3)
        yield running


@pytest.mark.parametrize("form", ["{}", "http://{}", "unix"])
def test_daemon_is_read_as_frozen_types(daemon: Daemon, form: str) -> None:
    url = f"unix:{local_socket_in(f'{daemon.folder}/run')}" if form == "unix" else form.format(daemon.address)
    node = read(url)
    assert [device.vendor for device in node.devices] == ["ascend", "nvidia", "nvidia"]
    card = node.devices[1]
    assert isinstance(card.value("power_watts"), float)
    assert card.value("temperature_celsius", "core") == card.temperature_celsius
    assert card.value("temperature_celsius", "no such sensor") is None
    with pytest.raises(AttributeError):
        card.model = "other"  # type: ignore[misc]  # that is the point
    with pytest.raises(TypeError):
        card.readings["power_watts"] = 1.0  # type: ignore[index]  # as above


def test_watch_continues(daemon: Daemon) -> None:
    times = [node.time for node in islice(watch(0.2, daemon.address), 3)]
    assert times == sorted(times)
    with pytest.raises(ValueError, match="interval must be at least"):
        watch(0.0)


@pytest.mark.parametrize(
    ("metric", "label", "words"),
    [
        ("power_wats", "", "unknown metric 'power_wats'; did you mean power_watts"),
        ("accelerator_power_watts", "", "did you mean power_watts"),
        ("blood_pressure", "", "docs/metrics.md"),
        ("temperature_celsius", "", r"value\('temperature_celsius', 'core'\); reported labels: core, memory"),
        ("throttled", "", "needs a label \\(reason\\), as in value"),
        ("clock_max_hertz", "", r"value\('clock_max_hertz', 'graphics'\); reported labels: none"),
        ("power_watts", "core", r"power_watts has no label 'core'; call value\('power_watts'\)"),
        ("ecc_enabled", "on", "ecc_enabled has no label"),
    ],
)
def test_mistaken_name_gets_a_suggestion(metric: str, label: str, words: str) -> None:
    readings = {"power_watts": 90.0, "temperature_celsius": {"core": 50.0, "memory": 60.0}, "of_a_plugin": 1.0}
    absent = {"ecc_enabled": "not_supported", "throttled": {"thermal": "not_reported"}}
    device = Device("nvidia", 0, "n", "0", "M", None, None, True, None, readings, absent)
    assert device.value("ecc_enabled") is device.value("utilization_ratio") is device.value("throttled", "any") is None
    assert device.value("of_a_plugin") == 1.0
    with pytest.raises(UnknownNameError, match=words):
        device.value(metric, label)


def test_address_may_come_first(daemon: Daemon) -> None:
    for arguments in ((daemon.address,), (daemon.address, 0.1), (0.1, daemon.address)):
        assert len(next(watch(*arguments)).devices) == 3
    for wrong in ((daemon.address, daemon.address), (0.1, 0.1)):
        with pytest.raises(TypeError, match="pass a single address and an interval"):
            watch(*wrong)
    with pytest.raises(TypeError, match="'localhost:24030' or 'gpu-17', not 24030"):
        read(24030)  # type: ignore[arg-type]  # what a hurried user writes


def series(text: str) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    return {
        (sample.name, frozenset(sample.labels.items()))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("accelerator_")
    }


def test_families_are_those_of_the_daemons_page(daemon: Daemon) -> None:
    registry = CollectorRegistry()
    registry.register(Collector(daemon.address))
    page = generate_latest(registry).decode()
    assert "device_telemetry_up 1.0" in page
    assert len(series(page)) > 60
    # Events are random; a document lacks some facts of the page's info metric.
    ours = {(name, labels) for name, labels in series(page) if "event" not in name and name != "accelerator_info"}
    assert ours <= series(daemon.page())
    infos = [dict(labels) for name, labels in series(page) if name == "accelerator_info"]
    assert {(info["uuid"], info["bus_id"]) for info in infos} == {
        (device["uuid"], device["bus_id"]) for device in daemon.document()["devices"]
    }


def test_missing_daemon_is_exposed_as_down() -> None:
    registry = CollectorRegistry()
    registry.register(Collector("127.0.0.1:1"))
    assert generate_latest(registry).decode().splitlines()[-1] == "device_telemetry_up 0.0"


def test_tools_are_read_without_a_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEMETRY_STATE_RUNTIME_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("TELEMETRY_WEB_LISTEN_ADDRESS", free_address())
    node = read()
    assert {source.source for source in node.sources} >= {"host", "nvml"}
    (first,) = islice(watch(0.5), 1)
    assert first.hostname == node.hostname


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("127.0.0.1:1", "127.0.0.1:1: "),
        ("http://user:secret@127.0.0.1", "must not contain a user or password"),
        ("no node at all", "is not a valid node; use HOST, HOST:PORT"),
        ("unix:/nowhere/at.all", "unix:/nowhere/at.all: "),
    ],
)
def test_missing_node_is_reported_with_a_remedy(url: str, words: str) -> None:
    with pytest.raises(NotReachableError, match=words.replace("[", r"\[")) as error:
        read(url, timeout=5)
    assert isinstance(error.value, TelemetryError)
    assert "secret" not in str(error.value)


LACKING = {"schema": "telemetry.snapshot/1", "hostname": "n", "time": "never", "devices": [], "sources": []}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html>", "the response is not JSON"),
        (b'{"schema": "telemetry.snapshot/0"}', "the response has the schema telemetry.snapshot/0"),
        (json.dumps(LACKING).encode(), "install the same release"),
    ],
)
def test_invalid_answer_is_named(body: bytes, words: str) -> None:
    with running_server(lambda _: Response(200, (body,))) as server, pytest.raises(NotUnderstoodError, match=words):
        read(f"127.0.0.1:{server.port}")


def card(vendor: str, index: int, uuid: str, parent: str | None = None) -> Device:
    return Device(vendor, index, uuid, str(index), "M", uuid, None, True, parent, {}, {})


CARDS = (
    card("nvidia", 0, "GPU-aaaa1111"),
    card("nvidia", 1, "GPU-bbbb2222"),
    card("nvidia", 1, "MIG-cccc3333", parent="GPU-bbbb2222"),
    card("ascend", 0, "D0"),
    card("ascend", 1, "D1"),
    card("amd", 0, "a0"),
)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ["GPU-aaaa1111", "GPU-bbbb2222", "MIG-cccc3333", "D0", "D1", "a0"]),
        (
            {"CUDA_VISIBLE_DEVICES": "1,0", "HIP_VISIBLE_DEVICES": "0"},
            ["GPU-bbbb2222", "GPU-aaaa1111", "D0", "D1", "a0"],
        ),
        ({"CUDA_VISIBLE_DEVICES": "1"}, ["GPU-bbbb2222", "D0", "D1"]),
        ({"CUDA_VISIBLE_DEVICES": "gpu-bbbb", "HIP_VISIBLE_DEVICES": ""}, ["GPU-bbbb2222", "D0", "D1"]),
        ({"CUDA_VISIBLE_DEVICES": "MIG-cccc3333", "HIP_VISIBLE_DEVICES": "-1"}, ["MIG-cccc3333", "D0", "D1"]),
        ({"CUDA_VISIBLE_DEVICES": "0,7,1", "ASCEND_RT_VISIBLE_DEVICES": "1"}, ["GPU-aaaa1111", "D1", "a0"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-", "ROCR_VISIBLE_DEVICES": "0"}, ["D0", "D1", "a0"]),
        ({"CUDA_VISIBLE_DEVICES": "", "ASCEND_VISIBLE_DEVICES": "0"}, ["D0"]),
    ],
)
def test_visible_devices_follow_the_runtimes_variables(environment: dict[str, str], expected: list[str]) -> None:
    assert [device.uuid for device in visible(CARDS, environment)] == expected
