"""The Helm chart rendered with values, and helm's errors."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from kits.captures import ROOT
from kits.waiting import PATIENCE_SECONDS

CHART = ROOT / "deploy" / "helm" / "device-telemetry"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
POOLS = tuple(VALUES["pools"])
RELEASE = "tele"
NAME = "tele-device-telemetry"
IMAGE: dict[str, Any] = {"image": {"repository": "registry.example.com:5000/telemetry"}}


def all_vendors() -> dict[str, Any]:
    return {**IMAGE, "pools": {name: {"enabled": True} for name in POOLS}}


# Values of users; each set covers another part of the chart.
VALUE_SETS: dict[str, dict[str, Any]] = {
    "defaults": IMAGE,
    "all vendors": all_vendors(),
    "pods monitored": {
        **IMAGE,
        "monitor": {"kind": "PodMonitor", "labels": {"release": "kube-prometheus-stack"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "kube-prometheus-stack"}},
        "dashboards": {"enabled": True, "namespace": "monitoring"},
    },
    "service monitored with TLS": {
        **IMAGE,
        "webSecretName": "web",
        "monitor": {
            "kind": "ServiceMonitor",
            "endpoint": {"scheme": "https", "tlsConfig": {"insecureSkipVerify": True}},
            "relabelings": [{"targetLabel": "cluster", "replacement": "blue"}],
            "metricRelabelings": [{"action": "labeldrop", "regex": "model"}],
        },
    },
    "owners of cards": {
        **IMAGE,
        "poolDefaults": {"attribution": {"enabled": True, "jobFolder": "/run/telemetry-jobs"}},
    },
    "network policy": {**IMAGE, "networkPolicy": {"enabled": True}},
    "an image of one's own": {
        "image": {
            "repository": "registry.example.com/telemetry",
            "digest": "sha256:" + "0" * 64,
            "pullPolicy": "Always",
        },
        "imagePullSecrets": [{"name": "registry"}],
        "pools": {"intel": {"enabled": True, "image": {"repository": "registry.example.com/with-xpu-smi", "tag": "7"}}},
    },
    "rules and dashboards only": {
        "pools": {name: {"enabled": False} for name in POOLS},
        "prometheusRule": {"enabled": True},
        "dashboards": {"enabled": True},
    },
    "every setting of a pool": {
        **IMAGE,
        "commonLabels": {"team": "infra", "app.kubernetes.io/name": "not ours to change"},
        "serviceAccount": {"create": False, "name": "watcher", "annotations": {"a": "b"}},
        "service": {"annotations": {"a": "b"}},
        "port": 9400,
        "config": {"log": {"format": "json"}, "sources": {"host": {"interval": 30}}},
        "pools": {
            "h100": {
                "like": "nvidia",
                "nodeSelector": {"card": "h100"},
                "affinity": {"podAntiAffinity": {}},
                "tolerations": [],
                "config": {"expect": {"devices": {"nvidia": 8}}, "sources": {"nvml": {"interval": 0.5, "deadline": 3}}},
                "args": ["serve", "--log.level", "debug"],
                "privileged": True,
                "securityContext": {"readOnlyRootFilesystem": False},
                "podSecurityContext": {"supplementalGroups": [44]},
                "hostPID": True,
                "hostNetwork": True,
                "hostPaths": [{"name": "tools", "path": "/opt/tools", "type": "Directory"}],
                "extraVolumes": [{"name": "more", "emptyDir": {}}],
                "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
                "stateHostPath": "/var/lib/telemetry",
                "resources": {"limits": {"memory": "1Gi"}},
                "livenessProbe": {"initialDelaySeconds": 30},
                "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}},
                "priorityClassName": "system-node-critical",
                "podLabels": {"a": "b"},
                "podAnnotations": {"a": "b"},
            }
        },
    },
}


@dataclass(frozen=True)
class Objects:
    text: str

    @cached_property
    def all(self) -> list[dict[str, Any]]:
        return [item for item in yaml.safe_load_all(self.text) if item is not None]

    def kind(self, kind: str) -> list[dict[str, Any]]:
        return [item for item in self.all if item["kind"] == kind]

    def only(self, kind: str) -> dict[str, Any]:
        (found,) = self.kind(kind)
        return found

    def named(self, kind: str, name: str) -> dict[str, Any]:
        (found,) = (item for item in self.kind(kind) if item["metadata"]["name"] == name)
        return found

    def pool(self, name: str) -> Pool:
        daemon_set = self.named("DaemonSet", f"{NAME}-{name}")
        config = self.named("ConfigMap", f"{NAME}-{name}")["data"]["telemetry.toml"]
        return Pool(daemon_set["spec"]["template"], config)

    def pools(self) -> dict[str, Pool]:
        return {name: self.pool(name) for name in self.pool_names()}

    def pool_names(self) -> list[str]:
        return [item["metadata"]["name"].removeprefix(f"{NAME}-") for item in self.kind("DaemonSet")]


@dataclass(frozen=True)
class Pool:
    template: dict[str, Any]
    config: str

    @property
    def spec(self) -> dict[str, Any]:
        return self.template["spec"]

    @property
    def container(self) -> dict[str, Any]:
        (container,) = self.spec["containers"]
        return container

    def mounts(self) -> dict[str, dict[str, Any]]:
        volumes = {volume["name"]: volume for volume in self.spec["volumes"]}
        return {mount["mountPath"]: volumes[mount["name"]] for mount in self.container["volumeMounts"]}


def helm(*arguments: str, values: Mapping[str, Any] | None = None) -> tuple[int, str, str]:
    """Return exit status, output and complaints, without helm's remark on each link."""
    more = () if values is None else ("--values", "-")
    done = subprocess.run(
        ["helm", *arguments, *more],
        input=yaml.safe_dump(values or {}),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    complaints = [line for line in done.stderr.splitlines() if "found symbolic link" not in line]
    return done.returncode, done.stdout, "\n".join(complaints)


def render(values: Mapping[str, Any], chart: Path = CHART, release: str = RELEASE, more: Sequence[str] = ()) -> Objects:
    status, output, complaints = helm("template", release, str(chart), *more, values=values)
    assert (status, complaints) == (0, ""), complaints
    return Objects(output)


def complaint(values: Mapping[str, Any]) -> str:
    status, output, complaints = helm("template", RELEASE, str(CHART), values=values)
    assert status != 0, output
    return complaints
