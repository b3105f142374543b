"""The daemon accepts the rendered telemetry.toml and answers the rendered probes."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from kits.captures import ROOT
from kits.daemon import COMMAND, Daemon
from kits.helm_chart import IMAGE, POOLS, VALUE_SETS, VALUES, all_vendors, complaint, render
from telemetry_daemon.config.file import load
from telemetry_daemon.config.inputs import ConfigInputs
from telemetry_daemon.config.settings import Settings, TextfileSettings

pytestmark = pytest.mark.needs("helm")

SOURCES = (ROOT / "deploy" / "helm" / "device-telemetry" / "files" / "sources.txt").read_text().split()


def settings(config: str, folder: Path) -> Settings:
    file = folder / "telemetry.toml"
    file.write_text(config)
    return load(ConfigInputs(path=str(file)))


@pytest.mark.parametrize("name", [name for name in VALUE_SETS if name != "service monitored with TLS"])
def test_the_daemon_takes_every_configuration(name: str, tmp_path: Path) -> None:
    for number, pool in enumerate(render(VALUE_SETS[name]).pools().values()):
        file = tmp_path / f"{number}.toml"
        file.write_text(pool.config)
        command = [*COMMAND, "config", "check", "--config", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", POOLS)
def test_a_pool_polls_its_sources_and_no_others(name: str, tmp_path: Path) -> None:
    found = settings(render(all_vendors()).pool(name).config, tmp_path)
    assert [source for source in SOURCES if found.source(source).mode != "never"] == sorted(
        VALUES["pools"][name]["sources"]
    )


def test_a_pool_without_sources_polls_all(tmp_path: Path) -> None:
    found = settings(render({**IMAGE, "pools": {"any": {}}}).pool("any").config, tmp_path)
    assert {found.source(source).mode for source in SOURCES} == {"auto"}


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({}, {"web": {"listen_address": (":19820",)}}),
        (
            {"web": {"listen_address": [":19820", "unix:/run/telemetry/web.sock"]}},
            {"web": {"listen_address": (":19820", "unix:/run/telemetry/web.sock")}},
        ),
        ({"expect": {"devices": {"nvidia": 8, "ascend": 0}}}, {"expect": {"devices": {"nvidia": 8, "ascend": 0}}}),
        ({"rank_table": '/a "b"/<c>&\\d/é'}, {"ranks": {"table": '/a "b"/<c>&\\d/é'}}),
        ({"privacy": {"map_addresses": False}}, {"ranks": {"map_addresses": False}}),
        (
            {"export": {"textfile": {"path": "/a/b.prom", "interval": 1.5}}},
            {"export": {"textfile": TextfileSettings("/a/b.prom", 1.5)}},
        ),
    ],
)
def test_yaml_values_reach_the_daemon(config: dict[str, Any], wanted: dict[str, Any], tmp_path: Path) -> None:
    found = settings(render({**IMAGE, "config": config}).pool("nvidia").config, tmp_path)
    for key, value in wanted.items():
        section = getattr(found, key)
        assert {name: getattr(section, name) for name in value} == value


@pytest.mark.parametrize("address", [[":9400"], ["[::1]:19820"], None])
@pytest.mark.parametrize("of_a_pool", [True, False])
def test_the_pods_listen_where_they_are_asked(address: list[str] | None, of_a_pool: bool) -> None:
    """Otherwise the kubelet would restart every pod endlessly."""
    config = {"config": {"web": {"listen_address": address}}}
    output = complaint({**IMAGE, **({"pools": {"nvidia": config}} if of_a_pool else config)})
    assert 'config.web.listen_address: probes and Prometheus ask at port; keep ":19820" in the list' in output


def test_pool_settings_override_common_settings(tmp_path: Path) -> None:
    """Settings of the pool override common settings, which override those of the chart."""
    values = {
        **IMAGE,
        "port": 9400,
        "config": {"log": {"level": "warning", "format": "json"}, "sources": {"rocm-smi": {"mode": "inventory"}}},
        "pools": {"nvidia": {"config": {"log": {"level": "debug"}, "sources": {"nvml": {"interval": 0.5}}}}},
    }
    found = settings(render(values).pool("nvidia").config, tmp_path)
    assert (found.log.level, found.log.format) == ("debug", "json")
    assert found.source("nvml").interval == 0.5
    assert found.source("rocm-smi").mode == "inventory"
    assert found.source("hy-smi").mode == "never"
    assert found.web.listen_address == (":9400",)


def test_web_configuration_is_mounted_at_the_configured_path(tmp_path: Path) -> None:
    pool = render(VALUE_SETS["service monitored with TLS"]).pool("nvidia")
    file = Path(settings(pool.config, tmp_path).web.config_file)
    assert file.name == "web.yml"
    assert pool.mounts()[str(file.parent)]["secret"]["secretName"] == "web"
    assert pool.container["livenessProbe"]["tcpSocket"] == {"port": "metrics"}
    assert "httpGet" not in pool.container["readinessProbe"]


def test_the_folders_that_the_daemon_writes_to_are_writable(tmp_path: Path) -> None:
    pool = render(IMAGE).pool("nvidia")
    found = settings(pool.config, tmp_path)
    read_only = {mount["mountPath"] for mount in pool.container["volumeMounts"] if mount.get("readOnly")}
    # Everybody may write to an emptyDir, and the daemon accepts no such folder as its own.
    for mount in (str(Path(found.state.directory).parent), str(Path(found.state.runtime_directory).parent), "/tmp"):
        assert mount in pool.mounts()
        assert mount not in read_only
    assert "/etc/telemetry" in pool.mounts()


def test_owners_take_root_without_capabilities_and_folders_that_cannot_be_written(tmp_path: Path) -> None:
    """The kubelet's socket is root's; neither a capability nor a privileged container is needed to connect to it."""
    pool = render(VALUE_SETS["owners of cards"]).pool("nvidia")
    found = settings(pool.config, tmp_path).attribution
    assert (found.enabled, found.job_directory) == (True, "/run/telemetry-jobs")
    read_only = {mount["mountPath"] for mount in pool.container["volumeMounts"] if mount.get("readOnly")}
    assert {str(Path(found.kubelet_socket).parent), "/var/log/pods", found.job_directory} <= read_only
    assert (pool.spec["hostPID"], pool.spec["securityContext"]["runAsUser"]) == (True, 0)
    assert pool.container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pool.container["securityContext"]["allowPrivilegeEscalation"] is False


def test_the_probes_are_answered(tmp_path: Path) -> None:
    """The daemon runs with the pool's configuration and arguments, on a port of the test."""
    pool = render({**IMAGE, "pools": {"demo": {"args": ["serve", "--demo", "1xnvidia"]}}}).pool("demo")
    command, *arguments = pool.container["args"]
    assert command == "serve"
    with Daemon(tmp_path, config="", arguments=arguments) as daemon:
        daemon.until(lambda: daemon.get(pool.container["readinessProbe"]["httpGet"]["path"])[0] == 200)
        assert daemon.get(pool.container["livenessProbe"]["httpGet"]["path"]) == (200, "ok\n")
