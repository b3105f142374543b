"""Functions that return the values of other exporters' labels for a device."""

from __future__ import annotations

from collections.abc import Callable

from telemetry_exporters.prometheus.compat.table import DeviceContext, LabelFunction

_BUS_PARTS = 3


def or_empty(value_of: LabelFunction) -> Callable[[DeviceContext], str]:
    """Return a function that returns an empty string instead of None."""
    return lambda context: value_of(context) or ""


# Facts about the whole card, even if the device is a partition.
number = or_empty(lambda context: context.card.device)
uuid = or_empty(lambda context: context.card.uuid or context.card.id)
model = or_empty(lambda context: context.card.model)
serial = or_empty(lambda context: context.card.serial)
driver = or_empty(lambda context: context.card.driver)
bus_id = or_empty(lambda context: context.card.bus_id)
upper_bus_id = or_empty(lambda context: bus_id(context).upper())
# The UUID of the device itself, which may be a partition.
own_uuid = or_empty(lambda context: context.device.uuid or context.device.id)
bare_uuid = or_empty(lambda context: uuid(context).removeprefix("GPU-").lower())
# Ascend's driver prints a UUID as groups with blanks between them.
hyphened_uuid = or_empty(lambda context: "-".join(uuid(context).split()))
# Ascend's driver library returns chip names such as `910C-Ascend-V1`.
chip_name = or_empty(lambda context: f"{model(context).removeprefix('Ascend').strip()}-Ascend-V1")
model_family = or_empty(lambda context: model(context).lower().partition("-")[0])
hostname = or_empty(lambda context: context.node.kubernetes_name or context.node.hostname)
kubernetes_name = or_empty(lambda context: context.node.kubernetes_name)
address = or_empty(lambda context: context.node.address)
one_if_owned = or_empty(lambda context: "1" if context.owner.get("pod_name") else "")


def long_bus_id(context: DeviceContext) -> str:
    """Return the PCI address in upper case, as NVML writes it."""
    parts = upper_bus_id(context).split(":")
    return ":".join((parts[0].rjust(8, "0"), *parts[1:])) if len(parts) == _BUS_PARTS else bus_id(context)


def partition_only(name: str) -> LabelFunction:
    """Return a function that returns this fact for partitions, and omits the label for whole cards."""
    return lambda context: (
        None
        if context.device is context.card
        else dict(context.device.facts).get(name) or context.device.partition or ""
    )


def partition_number(context: DeviceContext) -> str:
    """Return a partition's index. Return 0 for a card with a partition mode, and NA for other cards."""
    if context.device is not context.card:
        return context.device.partition or ""
    return "0" if context.fact("compute_partition") else "NA"


def fact(*names: str) -> LabelFunction:
    """Return a function that returns the first known fact in `names`, or an empty string."""
    return or_empty(lambda context: next(filter(None, map(context.fact, names)), ""))


def owner(name: str) -> LabelFunction:
    """Return a function that returns a label of the owner, or omits the label if the node reports no owners."""
    return lambda context: context.owner.get(name, "") if context.node.reports_owners else None


POD = tuple(map(owner, ("pod_namespace", "pod_name", "container_name")))


def non_empty(value_of: LabelFunction) -> LabelFunction:
    """Return a function that omits the label if its value is empty."""
    return lambda context: value_of(context) or None


def either(value_of: LabelFunction, otherwise: LabelFunction) -> LabelFunction:
    """Return a function that uses `otherwise` if `value_of` returns None or an empty string."""
    return lambda context: value_of(context) or otherwise(context)


def always(text: str) -> LabelFunction:
    """Return a function that returns the same text for each device."""
    return lambda _: text


def lower(value_of: LabelFunction) -> LabelFunction:
    """Return a function that converts the label value to lower case."""
    return lambda context: (value_of(context) or "").lower()


def prefixed(prefix: str, value_of: LabelFunction) -> LabelFunction:
    """Return a function that adds the prefix to a label value without the prefix. Empty values stay empty."""
    return lambda context: prefix + text.removeprefix(prefix) if (text := value_of(context) or "") else ""


def numbered(prefix: str) -> LabelFunction:
    """Return a function that adds a prefix to the card's number, as in `nvidia0`."""
    return lambda context: f"{prefix}{number(context)}"


def numbered_from_1(prefix: str, suffix: str = "") -> LabelFunction:
    """Return a function that adds a prefix and a suffix to the card's index, counted from 1."""
    return lambda context: f"{prefix}{1 + (context.card.index or 0)}{suffix}"
