"""The values of other exporters' labels, each a function of the device; None means that the label is left out."""

from __future__ import annotations

from collections.abc import Callable

from telemetry_exporters.prometheus.compat.table import Fact, Who

_BUS_PARTS = 3


def or_empty(text: Fact) -> Callable[[Who], str]:
    """Return the fact with an empty text for None."""
    return lambda who: text(who) or ""


# The card's number in its tool; its uuid, else its id on this node; its PCI address.
number = or_empty(lambda who: who.card.device)
uuid = or_empty(lambda who: who.card.uuid or who.card.id)
model = or_empty(lambda who: who.card.model)
serial = or_empty(lambda who: who.card.serial)
driver = or_empty(lambda who: who.card.driver)
bus_id = or_empty(lambda who: who.card.bus_id)
upper_bus_id = or_empty(lambda who: bus_id(who).upper())
# The uuid of the device itself, which may be a partition.
own_uuid = or_empty(lambda who: who.device.uuid or who.device.id)
# Without NVIDIA's `GPU-`, in lower case; with hyphens between the groups, as Ascend's driver prints it.
bare_uuid = or_empty(lambda who: uuid(who).removeprefix("GPU-").lower())
hyphened_uuid = or_empty(lambda who: "-".join(uuid(who).split()))
# Model, maker and version of an Ascend chip, as its driver's library joins them; the model of an MLU before its first hyphen.
chip_name = or_empty(lambda who: f"{model(who).removeprefix('Ascend').strip()}-Ascend-V1")
model_family = or_empty(lambda who: model(who).lower().partition("-")[0])
# The node's name in Kubernetes if known, else its host name; its name in Kubernetes only; its IP address.
hostname = or_empty(lambda who: who.node.kubernetes_name or who.node.hostname)
kubernetes_name = or_empty(lambda who: who.node.kubernetes_name)
address = or_empty(lambda who: who.node.address)
# 1 if a pod has the card.
is_owned = or_empty(lambda who: "1" if who.owner.get("pod_name") else "")


def long_bus_id(who: Who) -> str:
    """Return the bus address in upper case, with a domain of eight digits, as NVML writes it."""
    parts = upper_bus_id(who).split(":")
    return ":".join((parts[0].rjust(8, "0"), *parts[1:])) if len(parts) == _BUS_PARTS else bus_id(who)


def partition_only(name: str) -> Fact:
    """Return a fact of a partition, else the partition's name; a whole card has no such label."""
    return lambda who: (
        None if who.device is who.card else dict(who.device.facts).get(name) or who.device.partition or ""
    )


def partition_number(who: Who) -> str:
    """Return the number of the partition; 0 for a whole card, NA if the card has no partition mode."""
    if who.device is not who.card:
        return who.device.partition or ""
    return "0" if who.fact("compute_partition") else "NA"


def fact(*names: str) -> Fact:
    """Return the first of these facts that is known; empty if none is."""
    return or_empty(lambda who: next(filter(None, map(who.fact, names)), ""))


def owner(name: str) -> Fact:
    """Return a label of the card's only owner: empty without one, no label if attribution is off."""
    return lambda who: who.owner.get(name, "") if who.node.reports_owners else None


# Namespace, pod and container.
POD = tuple(map(owner, ("pod_namespace", "pod_name", "container_name")))


def non_empty(base: Fact) -> Fact:
    """Return the fact without its label if it is empty."""
    return lambda who: base(who) or None


def either(base: Fact, otherwise: Fact) -> Fact:
    """Return the fact, or `otherwise` if it is unknown."""
    return lambda who: base(who) or otherwise(who)


def always(text: str) -> Fact:
    """Return the same text for each device."""
    return lambda _: text


def lower(base: Fact) -> Fact:
    """Return the fact in lower case."""
    return lambda who: (base(who) or "").lower()


def prefixed(prefix: str, base: Fact) -> Fact:
    """Return the fact with the prefix, if it does not have it already; empty if it is unknown."""
    return lambda who: prefix + text.removeprefix(prefix) if (text := base(who) or "") else ""


def numbered(prefix: str) -> Fact:
    """Return the card's number behind a prefix, such as `nvidia0`."""
    return lambda who: f"{prefix}{number(who)}"


def numbered_from_1(prefix: str, suffix: str = "") -> Fact:
    """Return the card's index counted from 1, such as `gpu-1`."""
    return lambda who: f"{prefix}{1 + (who.card.index or 0)}{suffix}"
