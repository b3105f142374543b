"""Reads from the kubelet's answers which container has which device."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from telemetry_parsers.bounds import MOST_CLAIMS
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.library_answers import items, mapping, objects
from telemetry_parsers.model import Capture, Library, Output, Plain, Poll, Problem, Report
from telemetry_parsers.owners import device_ids
from telemetry_parsers.ownership import Claim, DeviceName, Owner
from telemetry_parsers.text.answers import capped, failed, not_read
from telemetry_parsers.text.lines import quote

_LONGEST_ID = 256
# A Kubernetes name: of a namespace, a pod (with dots) or a container.
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
# A static pod's uid has no dashes.
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}", re.ASCII)
_CONTAINER_ID = re.compile(r"[0-9a-f]{64}", re.ASCII)

_Path = tuple[str, ...]


def parse(capture: Capture) -> Report:
    """Return the claims of all pods, or problems with the ids of allocatable devices."""
    refusal = not_read(capture)
    if refusal is not None:
        return refusal
    for output in capture.outputs:
        read = _READ.get(output.name)
        if read is not None:
            return read(output)
    return failed("not_understood", "kubelet", f"none of the calls {' '.join(_READ)} was answered")


def _pods(output: Output) -> Report:
    data = mapping(output.data)
    if not isinstance(data.get("pods"), list):
        return failed("not_understood", "pods", f"expected a list of pods, got {type(data.get('pods')).__name__}")
    node = _Node.from_data(data)
    problems: list[Problem] = []
    claims: list[Claim] = []
    for pod in objects(data["pods"]):
        claims += _claims_of_pod(pod, node, problems)
    if len(claims) > MOST_CLAIMS:
        claims.sort(key=lambda claim: not claim.names)
        problems.append(Problem("pods", f"{len(claims)} claims, of which the first {MOST_CLAIMS} are kept"))
    return Report(claims=tuple(claims[:MOST_CLAIMS]), problems=capped(problems), form="data")


def _allocatable(output: Output) -> Report:
    data = mapping(output.data)
    if not isinstance(data.get("devices"), list):
        return failed("not_understood", "allocatable", "there is no list of devices")
    node = _Node.from_data(data)
    problems: list[Problem] = []
    for device in objects(data["devices"]):
        _device(device, "resource", node, problems)
    return Report(problems=capped(problems), form="data")


_READ: Mapping[str, Callable[[Output], Report]] = {"pods": _pods, "allocatable": _allocatable}


@dataclass(frozen=True, slots=True)
class _Node:
    """Data besides the kubelet's answer, by names: uids of pods, ids of containers, uids of living pods."""

    configured: frozenset[str] = frozenset()
    render_nodes: Mapping[str, str] = field(default_factory=dict)
    uids: Mapping[_Path, list[str]] = field(default_factory=dict)
    containers: Mapping[_Path, list[str]] = field(default_factory=dict)
    living: frozenset[str] | None = None
    # Whether all living pods have a folder of logs.
    are_all_named: bool = True

    @classmethod
    def from_data(cls, data: dict[str, Plain]) -> _Node:
        """Return the valid entries of the data."""
        configured = frozenset(entry for entry in items(data.get("resources")) if isinstance(entry, str))
        render_nodes = {str(entry.get("at")): str(entry.get("render")) for entry in objects(data.get("render_nodes"))}
        uids = _by_path(data.get("folders"), ("namespace", "pod_name"), "pod_uid", _UID)
        containers = _by_path(
            data.get("links"), ("namespace", "pod_name", "container_name"), "container_id", _CONTAINER_ID
        )
        living = _living(data, uids)
        are_all_named = living is not None and living <= {uid for of_pod in uids.values() for uid in of_pod}
        return cls(configured, render_nodes, uids, containers, living, are_all_named)


def _by_path(plain: Plain, name_keys: tuple[str, ...], key: str, pattern: re.Pattern[str]) -> Mapping[_Path, list[str]]:
    found: defaultdict[_Path, list[str]] = defaultdict(list)
    for entry in objects(plain):
        value = entry.get(key)
        if isinstance(value, str) and pattern.fullmatch(value):
            found[tuple(str(entry.get(part)) for part in name_keys)].append(value)
    return found


def _living(data: dict[str, Plain], uids: Mapping[_Path, list[str]]) -> frozenset[str] | None:
    """Return the uids that have a cgroup, or None if no pod of this kubelet has one in this hierarchy."""
    living = frozenset(uid for uid in items(data.get("living_pod_uids")) if isinstance(uid, str))
    return living if any(uid in living for of_pod in uids.values() for uid in of_pod) else None


def _lives(uids: list[str], node: _Node) -> bool | None:
    """Return whether a pod with these uids lives. Unknown (None) if a living pod without a folder of logs may be this one."""
    if node.living is None or not uids:
        return None
    return True if node.living.intersection(uids) else False if node.are_all_named else None


def _claims_of_pod(pod: dict[str, Plain], node: _Node, problems: list[Problem]) -> Iterator[Claim]:
    namespace, name = _name(pod, "namespace", problems), _name(pod, "pod_name", problems)
    if namespace is None or name is None:
        return
    uids = node.uids.get((namespace, name), [])
    living = [uid for uid in uids if uid in (node.living or ())]
    lives = _lives(uids, node)
    containers = objects(pod.get("containers"))
    for container in containers:
        of_container = _name(container, "container_name", problems)
        if of_container is None:
            continue
        owner = Owner("pod", f"{namespace}/{name}/{of_container}", namespace, name, of_container)
        ids = node.containers.get((namespace, name, of_container), [])
        keys = [f"podname:{owner.name}", *(f"container:{container_id}" for container_id in ids)]
        devices = list(_devices(container, node, problems))
        # The pod's uid becomes a key of a container with a device, or of the only container, but not of containers
        # beside it.
        if devices or len(containers) == 1:
            keys += [f"pod:{uid}" for uid in living or uids]
        for found in devices or [device_ids.Named(())]:
            yield Claim(owner, tuple(keys), found.names, found.replica, lives)


def _name(plain: dict[str, Plain], key: str, problems: list[Problem]) -> str | None:
    """Return the name of a namespace, pod or container; None, and a problem, for an invalid name."""
    name = plain.get(key)
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    problems.append(
        Problem("pods", f"{quote(str(name)[:_LONGEST_ID])} is not a valid name of a pod, namespace or container")
    )
    return None


def _devices(container: dict[str, Plain], node: _Node, problems: list[Problem]) -> Iterator[device_ids.Named]:
    for device in objects(container.get("devices")):
        found = _device(device, "resource", node, problems)
        if found is not None:
            yield found
    for device in objects(container.get("drawn")):
        found, share = _device(device, "driver", node, problems), device.get("share")
        if found is not None:
            yield replace(found, replica=share) if isinstance(share, str) else found


def _device(device: dict[str, Plain], key: str, node: _Node, problems: list[Problem]) -> device_ids.Named | None:
    """Return the names of a device, or None if it is no card. An id of unknown form becomes a problem."""
    resource, text = device.get(key), device.get("device")
    if not isinstance(resource, str) or not isinstance(text, str) or not 0 < len(text) <= _LONGEST_ID:
        problems.append(Problem("devices", "a device without a resource name or an id"))
        return None
    if not device_ids.may_be_card(resource, text, node.configured):
        return None
    found = device_ids.named(resource, text, node.configured, node.render_nodes)
    if found is None:
        problems.append(
            Problem(quote(resource), f"{quote(text)} is an id of unknown form, so that the card cannot be determined")
        )
        return device_ids.Named((DeviceName(text, "uuid", text),))
    return found


_POLLS = (
    Poll("pods", Library("kubelet", ("pods",)), "fast", 10.0, 5.0, lists_devices=False),
    Poll("allocatable", Library("kubelet", ("allocatable",)), "inventory", 300.0, 5.0, lists_devices=False),
)
PARSER = SourceParser(name="kubelet", vendor="", gives=(), polls=_POLLS, parse=parse)
