"""What the labels of other exporters say of a device, each as a function of who it is; None where there is no such label."""

from __future__ import annotations

from telemetry_exporters.prometheus.compat.table import Fact, Who

_BUS_PARTS = 3


def number(who: Who) -> str:
    """The card's number, as its tool counts them."""
    return who.card.device


def uuid(who: Who) -> str:
    """The whole card's identity: its uuid, else what identifies it on this node."""
    return who.card.uuid or who.card.id


def own_uuid(who: Who) -> str:
    """The device's own identity, also of a partition."""
    return who.device.uuid or who.device.id


def bare_uuid(who: Who) -> str:
    """The uuid without NVIDIA's `GPU-`, in lower case."""
    return uuid(who).removeprefix("GPU-").lower()


def model(who: Who) -> str:
    """The card's model."""
    return who.card.model


def serial(who: Who) -> str:
    """The card's serial number; empty where it is unknown."""
    return who.card.serial or ""


def driver(who: Who) -> str:
    """The driver's version; empty where it is unknown."""
    return who.card.driver or ""


def bus_id(who: Who) -> str:
    """The card's address on the PCI bus; empty where it is unknown."""
    return who.card.bus_id or ""


def upper_bus_id(who: Who) -> str:
    """The same in upper case."""
    return bus_id(who).upper()


def long_bus_id(who: Who) -> str:
    """The same in upper case, with a domain of eight digits, as NVML writes it."""
    parts = bus_id(who).upper().split(":")
    return ":".join((parts[0].rjust(8, "0"), *parts[1:])) if len(parts) == _BUS_PARTS else bus_id(who)


def partition_only(name: str) -> Fact:
    """A fact of a partition, else which one it is; a whole card has no such label."""

    def fact(who: Who) -> str | None:
        return None if who.device is who.card else dict(who.device.facts).get(name) or who.device.partition or ""

    return fact


def fact(*names: str) -> Fact:
    """The first of these facts that is known; empty where none is."""

    def found(who: Who) -> str:
        return next(filter(None, map(who.fact, names)), "")

    return found


def known(given: Fact) -> Fact:
    """The same, without the label where it would be empty."""

    def found(who: Who) -> str | None:
        return given(who) or None

    return found


def always(text: str) -> Fact:
    """The same text for each device."""

    def found(who: Who) -> str:  # noqa: ARG001  # all facts are asked alike
        return text

    return found


def numbered(prefix: str) -> Fact:
    """The card's number behind a prefix, such as `nvidia0`."""

    def found(who: Who) -> str:
        return f"{prefix}{number(who)}"

    return found


def hostname(who: Who) -> str:
    """The name of the node: Kubernetes' where that is known, else the host's."""
    return who.node.kubernetes_name or who.node.hostname


def owner(name: str) -> Fact:
    """A label of the card's one owner; empty where nobody has it, no label where owners are not told at all."""

    def found(who: Who) -> str | None:
        return who.owner.get(name, "") if who.node.tells_owners else None

    return found


namespace = owner("pod_namespace")
pod = owner("pod_name")
container = owner("container_name")


def partition_number(who: Who) -> str:
    """Which partition of its card the device is; a whole card is partition 0."""
    return "0" if who.device is who.card else who.device.partition or ""
