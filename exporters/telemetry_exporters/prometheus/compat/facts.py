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


def as_it_is(given: Fact) -> Fact:
    """Return the same fact."""
    return given


def some(given: Fact) -> Fact:
    """Return the same fact, empty instead of without a label."""

    def found(who: Who) -> str:
        return given(who) or ""

    return found


def either(given: Fact, otherwise: str | Fact) -> Fact:
    """Return the same fact, and another one or a text if it is unknown."""

    def found(who: Who) -> str | None:
        return given(who) or (otherwise if isinstance(otherwise, str) else otherwise(who))

    return found


def lower(given: Fact) -> Fact:
    """Return the same fact in lower case."""

    def found(who: Who) -> str:
        return (given(who) or "").lower()

    return found


def prefixed(prefix: str, given: Fact) -> Fact:
    """Return the same fact behind a prefix, which it may have already; empty if it is unknown."""

    def found(who: Who) -> str:
        text = given(who) or ""
        return text if not text or text.startswith(prefix) else f"{prefix}{text}"

    return found


def partition_number(who: Who) -> str:
    """Return the partition of its card that the device is; 0 for a whole card, NA if the card has no such mode."""
    if who.device is not who.card:
        return who.device.partition or ""
    return "0" if who.fact("compute_partition") else "NA"


def hyphened_uuid(who: Who) -> str:
    """Return the card's uuid with hyphens between its groups."""
    return "-".join(uuid(who).split())


def chip_name(who: Who) -> str:
    """Return model, maker and version of an Ascend chip, as its driver's library joins them."""
    return f"{model(who).removeprefix('Ascend').strip()}-Ascend-V1"


def kubernetes_name(who: Who) -> str:
    """Return Kubernetes' name of the node; empty outside of it."""
    return who.node.kubernetes_name


def address(who: Who) -> str:
    """Return the node's IP address; empty if it is unknown."""
    return who.node.address


def model_family(who: Who) -> str:
    """Return the model in lower case, up to its first hyphen."""
    return model(who).lower().partition("-")[0]


def is_owned(who: Who) -> str:
    """Return 1 if the card has a pod; empty if not."""
    return "1" if who.owner.get("pod_name") else ""


def numbered_from_1(prefix: str, suffix: str = "") -> Fact:
    """Return the position of the card counted from 1, such as `gpu-1`."""

    def found(who: Who) -> str:
        return f"{prefix}{1 + (who.card.index or 0)}{suffix}"

    return found
