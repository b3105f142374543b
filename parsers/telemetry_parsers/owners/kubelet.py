"""The kubelet's word on which container has which device, from the plain data that its reader gives."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from telemetry_parsers.bounds import MOST_CLAIMS
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.library_answers import items, mapping, objects
from telemetry_parsers.model import Capture, Library, Output, Plain, Poll, Problem, Report
from telemetry_parsers.owners import device_ids
from telemetry_parsers.ownership import Claim, DeviceName, Owner
from telemetry_parsers.text.answers import capped, failed, not_read
from telemetry_parsers.text.lines import quote

_LONGEST_ID = 256
# A name of Kubernetes: of a namespace, a pod (with dots) or a container.
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
# A static pod's uid has no dashes.
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}", re.ASCII)
_CONTAINER_ID = re.compile(r"[0-9a-f]{64}", re.ASCII)

_Place = tuple[str, ...]


def parse(capture: Capture) -> Report:
    """The claims of all pods, or what the ids of all allocatable devices are worth."""
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
        return failed("not_understood", "pods", f"there is no list of pods but {type(data.get('pods')).__name__}")
    known = _Known.of(data)
    problems: list[Problem] = []
    claims: list[Claim] = []
    for pod in objects(data["pods"]):
        claims += _claims_of_pod(pod, known, problems)
    if len(claims) > MOST_CLAIMS:
        claims.sort(key=lambda claim: not claim.names)
        problems.append(Problem("pods", f"{len(claims)} claims: all beyond {MOST_CLAIMS} are left out"))
    return Report(claims=tuple(claims[:MOST_CLAIMS]), problems=capped(problems), form="data")


def _allocatable(output: Output) -> Report:
    data = mapping(output.data)
    if not isinstance(data.get("devices"), list):
        return failed("not_understood", "allocatable", "there is no list of devices")
    known = _Known.of(data)
    problems: list[Problem] = []
    for device in objects(data["devices"]):
        _device(device, "resource", known, problems)
    return Report(problems=capped(problems), form="data")


_READ: Mapping[str, Callable[[Output], Report]] = {"pods": _pods, "allocatable": _allocatable}


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known besides the kubelet's answer, by names: uids of pods, ids of containers, which uids live."""

    own: frozenset[str] = frozenset()
    render_nodes: Mapping[str, str] = field(default_factory=dict)
    uids: Mapping[_Place, list[str]] = field(default_factory=dict)
    containers: Mapping[_Place, list[str]] = field(default_factory=dict)
    living: frozenset[str] | None = None
    # Whether each of those that live has a folder of logs.
    are_all_named: bool = True

    @classmethod
    def of(cls, data: dict[str, Plain]) -> _Known:
        """What is of the right shape in the data."""
        own = frozenset(one for one in items(data.get("resources")) if isinstance(one, str))
        render_nodes = {str(one.get("at")): str(one.get("render")) for one in objects(data.get("render_nodes"))}
        uids = _by_place(data.get("folders"), ("namespace", "pod_name"), "pod_uid", _UID)
        containers = _by_place(
            data.get("links"), ("namespace", "pod_name", "container_name"), "container_id", _CONTAINER_ID
        )
        living = _living(data, uids)
        are_all_named = living is not None and living <= {uid for of_pod in uids.values() for uid in of_pod}
        return cls(own, render_nodes, uids, containers, living, are_all_named)


def _by_place(plain: Plain, place: tuple[str, ...], key: str, pattern: re.Pattern[str]) -> Mapping[_Place, list[str]]:
    found: defaultdict[_Place, list[str]] = defaultdict(list)
    for one in objects(plain):
        value = one.get(key)
        if isinstance(value, str) and pattern.fullmatch(value):
            found[tuple(str(one.get(part)) for part in place)].append(value)
    return found


def _living(data: dict[str, Plain], uids: Mapping[_Place, list[str]]) -> frozenset[str] | None:
    """The uids that have a cgroup; None where no pod of this kubelet has one there: it is not its hierarchy, then."""
    living = frozenset(uid for uid in items(data.get("living_pod_uids")) if isinstance(uid, str))
    return living if any(uid in living for of_pod in uids.values() for uid in of_pod) else None


def _lives(uids: list[str], known: _Known) -> bool | None:
    """Whether a pod with these uids lives. A living pod that has no folder of logs yet may be it, under a new uid."""
    if known.living is None or not uids:
        return None
    return True if known.living.intersection(uids) else False if known.are_all_named else None


def _claims_of_pod(pod: dict[str, Plain], known: _Known, problems: list[Problem]) -> Iterator[Claim]:
    namespace, name = _name(pod, "namespace", problems), _name(pod, "pod_name", problems)
    if namespace is None or name is None:
        return
    uids = known.uids.get((namespace, name), [])
    living = [uid for uid in uids if uid in (known.living or ())]
    lives = _lives(uids, known)
    containers = objects(pod.get("containers"))
    for container in containers:
        of_container = _name(container, "container_name", problems)
        if of_container is None:
            continue
        owner = Owner("pod", f"{namespace}/{name}/{of_container}", namespace, name, of_container)
        ids = known.containers.get((namespace, name, of_container), [])
        keys = [f"podname:{owner.name}", *(f"container:{one}" for one in ids)]
        devices = list(_devices(container, known, problems))
        # The pod's uid stands for a container that has a device, and for the only one: for no companion of those.
        if devices or len(containers) == 1:
            keys += [f"pod:{uid}" for uid in living or uids]
        for found in devices or [device_ids.Named(())]:
            yield Claim(owner, tuple(keys), found.names, found.replica, lives)


def _name(plain: dict[str, Plain], key: str, problems: list[Problem]) -> str | None:
    """The name of a namespace, pod or container; None, and a problem, for what Kubernetes would not take as one."""
    name = plain.get(key)
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    problems.append(Problem("pods", f"{quote(str(name)[:_LONGEST_ID])} is no name of a pod, namespace or container"))
    return None


def _devices(container: dict[str, Plain], known: _Known, problems: list[Problem]) -> Iterator[device_ids.Named]:
    for device in objects(container.get("devices")):
        found = _device(device, "resource", known, problems)
        if found is not None:
            yield found
    for device in objects(container.get("drawn")):
        found, share = _device(device, "driver", known, problems), device.get("share")
        if found is not None:
            yield replace(found, replica=share) if isinstance(share, str) else found


def _device(device: dict[str, Plain], of: str, known: _Known, problems: list[Problem]) -> device_ids.Named | None:
    """What a device is called; None if it is no card. An id that nobody knows is a name that no card has, and a problem."""
    resource, text = device.get(of), device.get("device")
    if not isinstance(resource, str) or not isinstance(text, str) or not 0 < len(text) <= _LONGEST_ID:
        problems.append(Problem("devices", "a device without a resource name or an id"))
        return None
    if not device_ids.may_be_card(resource, text, known.own):
        return None
    found = device_ids.named(resource, text, known.own, known.render_nodes)
    if found is None:
        problems.append(
            Problem(quote(resource), f"{quote(text)} has no form of an id that is known: whose card it is stays open")
        )
        return device_ids.Named((DeviceName(text, "uuid", text),))
    return found


_POLLS = (
    Poll("pods", Library("kubelet", ("pods",)), "fast", 10.0, 5.0, lists_devices=False),
    Poll("allocatable", Library("kubelet", ("allocatable",)), "inventory", 300.0, 5.0, lists_devices=False),
)
PARSER = SourceParser(name="kubelet", vendor="", gives=(), polls=_POLLS, parse=parse)
