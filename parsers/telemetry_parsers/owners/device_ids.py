"""Parses the kubelet's device ids into names of cards."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.ownership import DeviceName, NameKind

# The patterns have named groups: the card's name and, in some ids, its instance or the part of a shared card.
_Patterns = tuple[tuple[re.Pattern[str], NameKind], ...]

_HEX = "[0-9a-fA-F]"
_UUID = rf"(?:[A-Z]{{2,4}}-)?{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}"
_BUS = rf"{_HEX}{{4}}:{_HEX}{{2}}:{_HEX}{{2}}\.[0-7]"
_NUMBER = "[0-9]{1,6}"
# For a part of a shared card, plugins append `::` (time slicing, MPS), `-_-` (Cambricon) or `/vgpu` (GKE), and a number.
_PART = r"(?:::|-_-|/vgpu)(?P<part>[0-9]{1,6})"
# A suffix of a UUID. HAMi appends a number, Cambricon a profile and a number, and others the UUID of an instance.
_SUFFIX = r"-(?P<suffix>[\w.+-]{1,80})"


def _patterns(*rows: tuple[str, NameKind]) -> _Patterns:
    return tuple((re.compile(rf"{row}(?:{_PART})?", re.ASCII), kind) for row, kind in rows)


# NVIDIA's drivers before 470 name a MIG instance after its card, GPU instance and compute instance.
_IDS_OF_ANY_VENDOR = (
    *_patterns((rf"(?P<name>MIG-{_UUID}/{_NUMBER}/{_NUMBER})", "uuid"), (rf"(?P<name>{_UUID})", "uuid")),
    (re.compile(rf"(?P<name>{_UUID}){_SUFFIX}", re.ASCII), "uuid"),
    *_patterns((rf"(?P<name>{_BUS})", "bus_id")),
)
# The index of a card in the vendor's tool.
_INDEX: tuple[str, NameKind] = (rf"(?P<name>{_NUMBER})", "index")


@dataclass(frozen=True, slots=True)
class _Family:
    """The resource names and device ids of one vendor's device plugins."""

    vendor: str
    domains: tuple[str, ...]
    resources: re.Pattern[str]  # names of resources that are always cards
    # Matches card ids in other resources, because network plugins use the same domains.
    card_ids: re.Pattern[str] | None = None
    ids: tuple[tuple[re.Pattern[str], NameKind], ...] = ()


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """The possible names of an allocated device."""

    names: tuple[DeviceName, ...]
    replica: str = ""  # the allocated part of a shared device


def _family(
    vendor: str, domains: str, resources: str, *ids: tuple[str, NameKind], card_ids: str | None = None
) -> _Family:
    card_id_pattern = None if card_ids is None else re.compile(card_ids)
    return _Family(vendor, tuple(domains.split()), re.compile(resources), card_id_pattern, _patterns(*ids))


_FAMILIES = (
    _family(
        "nvidia", "nvidia.com", r"p?gpu(?:\.shared)?|mig-[0-9][\w.+]*(?:\.shared)?",
        (rf"nvidia(?P<name>{_NUMBER})(?:/gi(?P<instance>{_NUMBER}))?", "minor"),
        # This name consists of the card's index and the instance's position, which the merge does not know.
        (rf"(?P<name>{_NUMBER}:{_NUMBER})", "index"),
        _INDEX,
        card_ids=r"(?:GPU|MIG)-",
    ),
    _family("nvidia", "volcano.sh", r"v?gpu-number"),
    _family(
        "amd", "amd.com", r"gpu|[sdtqc]px_nps[0-9]{1,2}",
        # The kubelet's reader looks up the render node of a platform device.
        (rf"(?P<name>amdgpu_xcp_{_NUMBER})", "render"),
    ),
    _family("hygon", "hygon.com", r"dcu|dcunum", _INDEX),
    _family("moorethreads", "mthreads.com", r"v?gpu", _INDEX),
    _family(
        "ascend", "huawei.com", r"npu|Ascend[0-9A-Z]+(?:-[0-9]{1,2}c[\w.]*)?",
        (rf"Ascend[0-9A-Z]+-[0-9]{{1,2}}c[\w.]{{0,40}}-(?P<instance>{_NUMBER})-(?P<name>{_NUMBER})", "physical"),
        (rf"(?:Ascend[0-9A-Z]+|npu)-(?P<name>{_NUMBER})", "physical"),
    ),
    _family(
        "cambricon", "cambricon.com",
        r"(?i:mlu)[\w-]*(?:\.share|\.smlu\.(?!vcore|vmemory)[\w.-]+|\.mim-[\w.+-]+)?|real-mlu-counts",
    ),
    _family("iluvatar", "iluvatar.com iluvatar.ai", r"v?gpu|[A-Z]{2}-V[0-9]{2,4}(?:-vgpu)?"),
    _family("metax", "metax-tech.com", r"s?gpu", _INDEX),
    _family("enflame", "enflame.com", r"v?gcu|drs-gcu|shared-gcu", _INDEX),
    _family("intel", "gpu.intel.com", r"i915|xe", (rf"card(?P<name>{_NUMBER})-(?P<own_part>{_NUMBER})", "card")),
    _family("kunlunxin", "kunlunxin.com", r"v?xpu", _INDEX),
)  # fmt: skip
# Drivers of dynamic resource allocation (DRA). Devices of other drivers are not cards.
_DRIVERS = (
    _family(
        "nvidia", "gpu.nvidia.com", "",
        (rf"gpu-(?P<name>{_NUMBER})", "minor"),
        # The instance's name consists of its profile and its placement, which the merge does not know.
        (rf"gpu-(?P<name>{_NUMBER})-mig-(?P<instance>[\w.-]{{1,60}})", "minor"),
    ),
    _family("amd", "gpu.amd.com", "", (rf"gpu-[0-9]{{1,4}}-(?P<name>{_NUMBER})", "render")),
)  # fmt: skip
# A resource that is known only from the configuration may belong to any vendor.
_UNKNOWN_VENDOR = _Family(
    "",
    (),
    re.compile(""),
    ids=tuple(dict.fromkeys((*(row for family in _FAMILIES for row in family.ids), *_patterns(_INDEX)))),
)


def is_wanted(resource: str, configured_resources: Collection[str]) -> bool:
    """Return whether this resource or DRA driver may provide cards."""
    return _family_of(resource, configured_resources) is not None


def parse_device_id(
    resource: str, device: str, configured_resources: Collection[str], render_nodes: Mapping[str, str]
) -> AllocatedDevice | None:
    """Return the device with this device id, or None if the format of the id is unknown."""
    family = _family_of(resource, configured_resources)
    for pattern, kind in () if family is None else (*_IDS_OF_ANY_VENDOR, *family.ids):
        match = pattern.fullmatch(device)
        if match is not None and family is not None:
            return _device_of(match, kind, family.vendor, render_nodes)
    return None


def may_be_card(resource: str, device: str, configured_resources: Collection[str]) -> bool:
    """Return whether a device of this resource or DRA driver can be a card."""
    family = _family_of(resource, configured_resources)
    if family is None:
        return False
    if resource in configured_resources or resource in family.domains:
        return True
    if family.resources.fullmatch(_resource_name(resource)):
        return True
    return family.card_ids is not None and family.card_ids.match(device) is not None


def _family_of(resource: str, configured_resources: Collection[str]) -> _Family | None:
    domain = resource.partition("/")[0]
    family = next((family for family in _FAMILIES if domain in family.domains), None)
    if resource in configured_resources:
        return family or _UNKNOWN_VENDOR
    if "/" not in resource:
        return next((family for family in _DRIVERS if domain in family.domains), None)
    if family is None or (family.card_ids is None and not family.resources.fullmatch(_resource_name(resource))):
        return None
    return family


def _resource_name(resource: str) -> str:
    return resource.partition("/")[2]


def _device_of(match: re.Match[str], kind: NameKind, vendor: str, render_nodes: Mapping[str, str]) -> AllocatedDevice:
    groups = {group: text for group, text in match.groupdict().items() if text is not None}
    value = groups["name"].lower() if kind == "bus_id" else groups["name"]
    name = DeviceName(match.string, kind, value, vendor, groups.get("instance", ""))
    render_node = render_nodes.get(name.value) if kind in ("bus_id", "render") else None
    names: tuple[DeviceName, ...] = (name,)
    if render_node is not None:
        # Partitions have the address of their card, but separate render nodes.
        names = (replace(name, way="render", value=render_node), name)
    return AllocatedDevice(names, next((groups[key] for key in ("part", "own_part", "suffix") if key in groups), ""))
