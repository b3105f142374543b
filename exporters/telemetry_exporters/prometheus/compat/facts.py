"""What the labels of other exporters say of a device, each as a function of who it is; None where there is no such label."""

from __future__ import annotations

from collections.abc import Callable

from telemetry_exporters.prometheus.compat.table import Fact, Who

_BUS_PARTS = 3


def _read(text: Callable[[Who], str | None]) -> Callable[[Who], str]:
    """Return a fact that is empty where it is unknown."""
    return lambda who: text(who) or ""


# The card's number, as its tool counts them; its uuid, else what identifies it on this node; its address on the PCI bus.
number = _read(lambda who: who.card.device)
uuid = _read(lambda who: who.card.uuid or who.card.id)
model = _read(lambda who: who.card.model)
serial = _read(lambda who: who.card.serial)
driver = _read(lambda who: who.card.driver)
bus_id = _read(lambda who: who.card.bus_id)
upper_bus_id = _read(lambda who: bus_id(who).upper())
# Also of a partition.
own_uuid = _read(lambda who: who.device.uuid or who.device.id)
# Without NVIDIA's `GPU-`, in lower case; with hyphens between its groups, as Ascend's driver writes it.
bare_uuid = _read(lambda who: uuid(who).removeprefix("GPU-").lower())
hyphened_uuid = _read(lambda who: "-".join(uuid(who).split()))
# Model, maker and version of an Ascend chip, as its driver's library joins them; the model of an MLU up to its first hyphen.
chip_name = _read(lambda who: f"{model(who).removeprefix('Ascend').strip()}-Ascend-V1")
model_family = _read(lambda who: model(who).lower().partition("-")[0])
# The name of the node: Kubernetes' where that is known, else the host's; Kubernetes' alone; its IP address.
hostname = _read(lambda who: who.node.kubernetes_name or who.node.hostname)
kubernetes_name = _read(lambda who: who.node.kubernetes_name)
address = _read(lambda who: who.node.address)
# 1 if a pod has the card.
is_owned = _read(lambda who: "1" if who.owner.get("pod_name") else "")


def long_bus_id(who: Who) -> str:
    """Return the bus address in upper case, with a domain of eight digits, as NVML writes it."""
    parts = upper_bus_id(who).split(":")
    return ":".join((parts[0].rjust(8, "0"), *parts[1:])) if len(parts) == _BUS_PARTS else bus_id(who)


def partition_only(name: str) -> Fact:
    """Return a fact of a partition, else which one it is; a whole card has no such label."""
    return lambda who: (
        None if who.device is who.card else dict(who.device.facts).get(name) or who.device.partition or ""
    )


def partition_number(who: Who) -> str:
    """Return the partition of its card that the device is; 0 for a whole card, NA if the card has no such mode."""
    if who.device is not who.card:
        return who.device.partition or ""
    return "0" if who.fact("compute_partition") else "NA"


def fact(*names: str) -> Fact:
    """Return the first of these facts that is known; empty if none is."""
    return _read(lambda who: next(filter(None, map(who.fact, names)), ""))


def owner(name: str) -> Fact:
    """Return a label of the card's one owner: empty if it has none, no label if attribution is off."""
    return lambda who: who.owner.get(name, "") if who.node.tells_owners else None


namespace = owner("pod_namespace")
pod = owner("pod_name")
container = owner("container_name")


def known(given: Fact) -> Fact:
    """Return the same fact, without the label where it would be empty."""
    return lambda who: given(who) or None


def some(given: Fact) -> Fact:
    """Return the same fact, empty instead of without a label."""
    return _read(given)


def either(given: Fact, otherwise: Fact) -> Fact:
    """Return the same fact, and another one if it is unknown."""
    return lambda who: given(who) or otherwise(who)


def always(text: str) -> Fact:
    """Return the same text for each device."""
    return lambda _: text


def lower(given: Fact) -> Fact:
    """Return the same fact in lower case."""
    return lambda who: (given(who) or "").lower()


def prefixed(prefix: str, given: Fact) -> Fact:
    """Return the same fact behind a prefix, which it may have already; empty if it is unknown."""
    return lambda who: prefix + text.removeprefix(prefix) if (text := given(who) or "") else ""


def numbered(prefix: str) -> Fact:
    """Return the card's number behind a prefix, such as `nvidia0`."""
    return lambda who: f"{prefix}{number(who)}"


def numbered_from_1(prefix: str, suffix: str = "") -> Fact:
    """Return the position of the card counted from 1, such as `gpu-1`."""
    return lambda who: f"{prefix}{1 + (who.card.index or 0)}{suffix}"
