"""The rendered objects: Kubernetes and the Prometheus operator accept them, and their references are correct."""

import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from kits.captures import ROOT
from kits.helm_chart import (
    CHART,
    IMAGE,
    NAME,
    POOLS,
    RELEASE,
    VALUE_SETS,
    VALUES,
    Pool,
    all_vendors,
    complaint,
    helm,
    render,
)

pytestmark = pytest.mark.needs("helm", "kubeconform")

SCHEMAS = ROOT / "build" / "helm" / "schemas"
KUBERNETES = sorted(path.name for path in SCHEMAS.glob("v*"))
NAMES_MAY_BE = 63


@pytest.mark.parametrize("name", VALUE_SETS)
def test_lint_finds_nothing(name: str) -> None:
    status, output, complaints = helm("lint", "--strict", str(CHART), values=VALUE_SETS[name])
    assert (status, complaints) == (0, "")
    assert "0 chart(s) failed" in output
    assert "[WARNING]" not in output


@pytest.mark.parametrize("kubernetes", KUBERNETES)
@pytest.mark.parametrize("name", VALUE_SETS)
def test_objects_fit_their_schemas(name: str, kubernetes: str) -> None:
    objects = render(VALUE_SETS[name], more=("--kube-version", kubernetes))
    status, output = conforms(objects.text, kubernetes)
    assert status == 0, output
    assert f"Valid: {len(objects.all)}, Invalid: 0, Errors: 0, Skipped: 0" in output


def test_the_schemas_are_of_the_oldest_version_that_the_chart_is_for_and_of_a_newer_one() -> None:
    wanted = yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"]
    assert wanted == f">={KUBERNETES[0].removeprefix('v')}-0"
    assert len(KUBERNETES) > 1


@pytest.mark.parametrize("word", ["hostPID", "sampleLimit"])
def test_a_misspelt_field_is_found(word: str) -> None:
    values = {**VALUE_SETS["every setting of a pool"], **VALUE_SETS["pods monitored"]}
    text = render(values).text
    assert f"{word}:" in text
    assert conforms(text.replace(f"{word}:", f"{word}s:"), KUBERNETES[-1])[0] == 1


def conforms(text: str, kubernetes: str) -> tuple[int, str]:
    file_pattern = "{{.ResourceKind}}{{.KindSuffix}}.json"
    command = ["kubeconform", "-strict", "-summary", "-kubernetes-version", kubernetes.removeprefix("v")]
    for folder in (SCHEMAS / kubernetes, SCHEMAS):
        command += ["-schema-location", f"{folder}/{file_pattern}"]
    done = subprocess.run([*command, "-"], input=text, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_default_objects_are_rendered() -> None:
    objects = render(IMAGE)
    assert objects.pool_names() == ["amd", "moorethreads", "nvidia"]
    kinds = {item["kind"] for item in objects.all}
    assert kinds == {"ConfigMap", "DaemonSet", "Service", "ServiceAccount"}


def test_objects_have_unique_names_and_the_label_of_their_release() -> None:
    objects = render({**all_vendors(), **VALUE_SETS["pods monitored"], "networkPolicy": {"enabled": True}})
    names = [(item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]) for item in objects.all]
    assert len(names) == len(set(names))
    # No DaemonSet may count another one's pods as its own.
    selectors = [sorted(item["spec"]["selector"]["matchLabels"].items()) for item in objects.kind("DaemonSet")]
    assert len(set(map(tuple, selectors))) == len(POOLS)
    for item in objects.all:
        assert item["metadata"]["labels"]["app.kubernetes.io/instance"] == RELEASE
        assert item["metadata"]["namespace"]


@pytest.mark.parametrize("release", ["r", "device-telemetry", "r" * 53])
def test_names_are_short_enough_whatever_the_release(release: str) -> None:
    longest = {"x" * 24: {"enabled": True}}
    values = {**VALUE_SETS["pods monitored"], "pools": longest}
    names = [item["metadata"]["name"] for item in render(values, release=release).all]
    assert [name for name in names if len(name) > NAMES_MAY_BE] == []
    assert len(set(names)) > len(names) / 2


@pytest.mark.parametrize("name", VALUE_SETS)
def test_all_selectors_match_the_pods(name: str) -> None:
    values = {**VALUE_SETS[name], "networkPolicy": {"enabled": True}}
    values["monitor"] = {"kind": "PodMonitor", **values.get("monitor", {})}
    objects = render(values)
    for daemon_set in objects.kind("DaemonSet"):
        labels = daemon_set["spec"]["template"]["metadata"]["labels"]
        selectors = [
            daemon_set["spec"]["selector"]["matchLabels"],
            objects.only("Service")["spec"]["selector"],
            objects.only("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
            objects.only(values["monitor"]["kind"])["spec"]["selector"]["matchLabels"],
        ]
        assert [selector for selector in selectors if not selector.items() <= labels.items()] == []
    # The names that deploy/prometheus/kubernetes-sd.yml selects.
    assert objects.only("Service")["spec"]["selector"]["app.kubernetes.io/name"] == "device-telemetry"
    for pool in objects.pools().values():
        assert [port["name"] for port in pool.container["ports"]] == ["metrics"]


def test_a_service_monitor_finds_the_service() -> None:
    objects = render(VALUE_SETS["service monitored with TLS"])
    service, monitor = objects.only("Service"), objects.only("ServiceMonitor")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert [port["name"] for port in service["spec"]["ports"]] == [monitor["spec"]["endpoints"][0]["port"]]
    assert monitor["spec"]["endpoints"][0]["scheme"] == "https"


@pytest.mark.parametrize("name", POOLS)
def test_pool_is_restricted_or_privileged(name: str) -> None:
    pool = render(all_vendors()).pool(name)
    # A service named telemetry would set TELEMETRY_PORT, which the daemon refuses as no setting of its own.
    assert (pool.spec["enableServiceLinks"], pool.spec["automountServiceAccountToken"]) == (False, False)
    if VALUES["pools"][name].get("privileged"):
        assert pool.container["securityContext"] == {"privileged": True, "readOnlyRootFilesystem": True}
        assert pool.spec["securityContext"]["runAsUser"] == 0
        return
    assert_restricted(pool)


def assert_restricted(pool: Pool) -> None:
    """Check the strictest of the pod security standards of Kubernetes."""
    spec, inside = pool.spec, pool.container["securityContext"]
    assert {key for key in spec if key.startswith("host")} == set()
    kinds = {next(key for key in volume if key != "name") for volume in spec["volumes"]}
    assert kinds <= {"configMap", "emptyDir", "projected", "secret"}
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert inside["allowPrivilegeEscalation"] is False
    assert inside["capabilities"] == {"drop": ["ALL"]}
    assert inside["readOnlyRootFilesystem"] is True


def test_everything_else_of_the_node_is_mounted_read_only() -> None:
    for pool in render(all_vendors()).pools().values():
        of_node = {volume["name"] for volume in pool.spec["volumes"] if "hostPath" in volume}
        writable = [m for m in pool.container["volumeMounts"] if m["name"] in of_node and not m.get("readOnly")]
        assert writable == []
        assert len({mount["mountPath"] for mount in pool.container["volumeMounts"]}) == len(pool.mounts())


def test_every_setting_of_a_pool_arrives() -> None:
    objects = render(VALUE_SETS["every setting of a pool"])
    pool = objects.pool("h100")
    spec, inside = pool.spec, pool.container
    assert spec["runtimeClassName"] == "nvidia"  # inherited with `like`
    assert spec["nodeSelector"] == {"card": "h100"}
    assert set(spec["affinity"]) == {"nodeAffinity", "podAntiAffinity"}
    assert "tolerations" not in spec
    assert spec["serviceAccountName"] == "watcher"
    assert objects.kind("ServiceAccount") == []
    assert (spec["hostPID"], spec["hostNetwork"]) == (True, True)
    assert spec["priorityClassName"] == "system-node-critical"
    assert spec["securityContext"]["supplementalGroups"] == [44]
    assert inside["securityContext"] == {"privileged": True, "readOnlyRootFilesystem": False}
    assert inside["args"] == ["serve", "--log.level", "debug"]
    assert inside["ports"][0]["containerPort"] == 9400
    assert inside["resources"] == {"limits": {"memory": "1Gi"}, "requests": {"cpu": "50m", "memory": "96Mi"}}
    assert inside["livenessProbe"]["initialDelaySeconds"] == 30
    assert pool.mounts()["/var/lib/telemetry"]["hostPath"]["path"] == "/var/lib/telemetry"
    assert pool.mounts()["/opt/tools"]["hostPath"] == {"path": "/opt/tools", "type": "Directory"}
    assert pool.mounts()["/more"] == {"name": "more", "emptyDir": {}}
    labels = pool.template["metadata"]["labels"]
    assert labels.items() >= {"a": "b", "team": "infra", "app.kubernetes.io/name": "device-telemetry"}.items()
    assert objects.named("DaemonSet", f"{NAME}-h100")["spec"]["updateStrategy"]["rollingUpdate"] == {
        "maxUnavailable": 1
    }
    # The pool named by `like` is unchanged.
    assert "hostPID" not in objects.pool("nvidia").spec


@pytest.mark.parametrize(
    ("values", "images"),
    [
        (
            IMAGE,
            {f"registry.example.com:5000/telemetry:{yaml.safe_load((CHART / 'Chart.yaml').read_text())['version']}"},
        ),
        (
            VALUE_SETS["an image of one's own"],
            {
                f"registry.example.com/telemetry@sha256:{'0' * 64}",
                f"registry.example.com/with-xpu-smi@sha256:{'0' * 64}",
            },
        ),
    ],
)
def test_images_are_chosen_by_values(values: dict[str, Any], images: set[str]) -> None:
    assert {pool.container["image"] for pool in render(values).pools().values()} == images


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "image.repository: say where you have pushed the image"),
        ({**IMAGE, "pools": {"a": {"like": "b"}}}, "pools.a.like: there is no pool b"),
        (
            {**IMAGE, "pools": {"a": {"like": "b"}, "b": {"like": "nvidia"}}},
            "pools.a.like: b is like another one itself",
        ),
        ({**IMAGE, "poolz": {}}, "poolz"),
    ],
)
def test_helm_reports_invalid_values(values: dict[str, Any], expected: str) -> None:
    assert expected in complaint(values)


def test_a_pod_is_replaced_when_its_configuration_changes_and_only_then() -> None:
    before = checksums(IMAGE)
    assert len(set(before.values())) == len(before)
    assert checksums({**IMAGE, "prometheusRule": {"enabled": True}}) == before
    nvidia = checksums({**IMAGE, "pools": {"nvidia": {"config": {"log": {"level": "debug"}}}}})
    assert {name for name in before if nvidia[name] != before[name]} == {"nvidia"}
    everywhere = checksums({**IMAGE, "config": {"log": {"level": "debug"}}})
    assert {name for name in before if everywhere[name] != before[name]} == set(before)


def checksums(values: dict[str, Any]) -> dict[str, str]:
    pools = render(values).pools()
    return {name: pool.template["metadata"]["annotations"]["checksum/config"] for name, pool in pools.items()}


def test_the_package_is_whole(tmp_path: Path) -> None:
    """The package of `make chart` works without a checkout."""
    subprocess.run([str(CHART.parents[1] / "chart.sh"), str(tmp_path)], check=True)
    (package,) = tmp_path.glob("*.tgz")
    with tarfile.open(package) as opened:
        assert all(member.isfile() for member in opened)
    for values in (VALUE_SETS["pods monitored"], all_vendors()):
        assert render(values, chart=package).text == render(values).text


@pytest.mark.parametrize("wanted", ["prometheusRule", "dashboards"])
def test_copy_without_links_reports_the_missing_files(wanted: str, tmp_path: Path) -> None:
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart, ignore=shutil.ignore_patterns("rules", "dashboards"))
    assert render(IMAGE, chart=chart).pool_names()
    status, _, complaints = helm("template", "x", str(chart), values={**IMAGE, wanted: {"enabled": True}})
    assert status != 0
    assert "use the packaged chart (make chart), or a whole checkout" in complaints
