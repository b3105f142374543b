"""Parses the kubelet's answers about the devices of containers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from telemetry_parsers.bounds import MAX_CLAIMS
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.library_answers import items, mapping, objects
from telemetry_parsers.model import Capture, Library, Output, Plain, Poll, Problem, Report
from telemetry_parsers.owners import device_ids
from telemetry_parsers.ownership import Claim, DeviceName, Owner
from telemetry_parsers.text.answers import capped, failed, reader_failure
from telemetry_parsers.text.lines import quote

_MAX_ID_LENGTH = 256
# The name of a namespace, a pod or a container. Names of pods may contain dots.
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
# A pod's UID. The UID of a static pod has no hyphens.
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}", re.ASCII)
_CONTAINER_ID = re.compile(r"[0-9a-f]{64}", re.ASCII)

_Path = tuple[str, ...]  # (namespace, pod) or (namespace, pod, container)


def parse(capture: Capture) -> Report:
    """Return the claims of all pods. For the poll `allocatable`, return only problems."""
    failure = reader_failure(capture)
    if failure is not None:
        return failure
    for output in capture.outputs:
        parse_output = _PARSERS.get(output.name)
        if parse_output is not None:
            return parse_output(output)
    return failed("not_understood", "kubelet", f"the capture contains no answer to the calls {' '.join(_PARSERS)}")


def _report_on_pods(output: Output) -> Report:
    data = mapping(output.data)
    if not isinstance(data.get("pods"), list):
        return failed("not_understood", "pods", f"expected a list of pods, found {type(data.get('pods')).__name__}")
    node = _NodeData.from_data(data)
    problems: list[Problem] = []
    claims: list[Claim] = []
    for pod in objects(data["pods"]):
        claims += _claims_of_pod(pod, node, problems)
    if len(claims) > MAX_CLAIMS:
        claims.sort(key=lambda claim: not claim.names)
        problems.append(Problem("pods", f"only the first {MAX_CLAIMS} of {len(claims)} reported claims are kept"))
    return Report(claims=tuple(claims[:MAX_CLAIMS]), problems=capped(problems), form="data")


def _report_on_allocatable(output: Output) -> Report:
    data = mapping(output.data)
    if not isinstance(data.get("devices"), list):
        return failed("not_understood", "allocatable", "the list of devices is missing")
    node = _NodeData.from_data(data)
    problems: list[Problem] = []
    for device in objects(data["devices"]):
        _parse_allocated_device(device, "resource", node, problems)
    return Report(problems=capped(problems), form="data")


_PARSERS: Mapping[str, Callable[[Output], Report]] = {"pods": _report_on_pods, "allocatable": _report_on_allocatable}


@dataclass(frozen=True, slots=True)
class _NodeData:
    """Data about the node that the reader adds to the kubelet's answer."""

    configured_resources: frozenset[str] = frozenset()
    render_nodes: Mapping[str, str] = field(default_factory=dict)
    uids_by_pod: Mapping[_Path, list[str]] = field(default_factory=dict)
    container_ids_by_path: Mapping[_Path, list[str]] = field(default_factory=dict)
    living_uids: frozenset[str] | None = None  # None if unknown
    # Whether all running pods have a log folder, whose name contains the pod's UID.
    has_all_uids: bool = True

    @classmethod
    def from_data(cls, data: dict[str, Plain]) -> _NodeData:
        configured = frozenset(entry for entry in items(data.get("resources")) if isinstance(entry, str))
        render_nodes = {str(entry.get("at")): str(entry.get("render")) for entry in objects(data.get("render_nodes"))}
        uids = _by_path(data.get("folders"), ("namespace", "pod_name"), "pod_uid", _UID)
        containers = _by_path(
            data.get("links"), ("namespace", "pod_name", "container_name"), "container_id", _CONTAINER_ID
        )
        living = _living_uids(data, uids)
        has_all_uids = living is not None and living <= {uid for pod_uids in uids.values() for uid in pod_uids}
        return cls(configured, render_nodes, uids, containers, living, has_all_uids)


def _by_path(plain: Plain, name_keys: tuple[str, ...], key: str, pattern: re.Pattern[str]) -> Mapping[_Path, list[str]]:
    values: defaultdict[_Path, list[str]] = defaultdict(list)
    for entry in objects(plain):
        value = entry.get(key)
        if isinstance(value, str) and pattern.fullmatch(value):
            values[tuple(str(entry.get(name_key)) for name_key in name_keys)].append(value)
    return values


def _living_uids(data: dict[str, Plain], uids: Mapping[_Path, list[str]]) -> frozenset[str] | None:
    """Return the UIDs of pods with a cgroup, or None if no listed pod has one."""
    living = frozenset(uid for uid in items(data.get("living_pod_uids")) if isinstance(uid, str))
    return living if any(uid in living for pod_uids in uids.values() for uid in pod_uids) else None


def _is_living(uids: list[str], node: _NodeData) -> bool | None:
    """Return whether a pod with these UIDs is running, or None if unknown."""
    if node.living_uids is None or not uids:
        return None
    return True if node.living_uids.intersection(uids) else False if node.has_all_uids else None


def _claims_of_pod(pod: dict[str, Plain], node: _NodeData, problems: list[Problem]) -> Iterator[Claim]:
    namespace, name = _valid_name(pod, "namespace", problems), _valid_name(pod, "pod_name", problems)
    if namespace is None or name is None:
        return
    uids = node.uids_by_pod.get((namespace, name), [])
    living_uids = [uid for uid in uids if uid in (node.living_uids or ())]
    lives = _is_living(uids, node)
    containers = objects(pod.get("containers"))
    for container in containers:
        container_name = _valid_name(container, "container_name", problems)
        if container_name is None:
            continue
        owner = Owner("pod", f"{namespace}/{name}/{container_name}", namespace, name, container_name)
        ids = node.container_ids_by_path.get((namespace, name, container_name), [])
        keys = [f"podname:{owner.name}", *(f"container:{container_id}" for container_id in ids)]
        devices = list(_allocated_devices(container, node, problems))
        # If only the pod of a process is known, it is attributed to a container with devices or to the only container.
        if devices or len(containers) == 1:
            keys += [f"pod:{uid}" for uid in living_uids or uids]
        for allocated in devices or [device_ids.AllocatedDevice(())]:
            yield Claim(owner, tuple(keys), allocated.names, allocated.replica, lives)


def _valid_name(entry: dict[str, Plain], key: str, problems: list[Problem]) -> str | None:
    name = entry.get(key)
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    problems.append(
        Problem("pods", f"{quote(str(name)[:_MAX_ID_LENGTH])} is not a valid name of a pod, namespace or container")
    )
    return None


def _allocated_devices(
    container: dict[str, Plain], node: _NodeData, problems: list[Problem]
) -> Iterator[device_ids.AllocatedDevice]:
    for device in objects(container.get("devices")):
        allocated = _parse_allocated_device(device, "resource", node, problems)
        if allocated is not None:
            yield allocated
    for device in objects(container.get("drawn")):
        allocated, share = _parse_allocated_device(device, "driver", node, problems), device.get("share")
        if allocated is not None:
            yield replace(allocated, replica=share) if isinstance(share, str) else allocated


def _parse_allocated_device(
    device: dict[str, Plain], key: str, node: _NodeData, problems: list[Problem]
) -> device_ids.AllocatedDevice | None:
    """Return the possible names of an allocated device, or None if the device is not a card."""
    resource, text = device.get(key), device.get("device")
    if not isinstance(resource, str) or not isinstance(text, str) or not 0 < len(text) <= _MAX_ID_LENGTH:
        problems.append(Problem("devices", "a device has no resource name or no id"))
        return None
    if not device_ids.may_be_card(resource, text, node.configured_resources):
        return None
    allocated = device_ids.parse_device_id(resource, text, node.configured_resources, node.render_nodes)
    if allocated is None:
        problems.append(
            Problem(quote(resource), f"cannot find the card of {quote(text)}: the format of the device id is unknown")
        )
        return device_ids.AllocatedDevice((DeviceName(text, "uuid", text),))
    return allocated


_POLLS = (
    Poll("pods", Library("kubelet", ("pods",)), "fast", 10.0, 5.0, lists_devices=False),
    Poll("allocatable", Library("kubelet", ("allocatable",)), "inventory", 300.0, 5.0, lists_devices=False),
)
PARSER = SourceParser(name="kubelet", vendor="", gives=(), polls=_POLLS, parse=parse)
