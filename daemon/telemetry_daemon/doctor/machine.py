"""Reads this machine's cards, drivers and device nodes from the kernel."""

from __future__ import annotations

import getpass
import grp
import os
import pwd
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from telemetry_daemon.readers import pci
from telemetry_daemon.readers.device_nodes import denial_errno
from telemetry_daemon.readers.pci import PciDevice
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.vendors import VENDORS

_RENDER_NODES = "/dev/dri/"  # may contain device nodes of any vendor
# The first group ID of ordinary users on Linux distributions.
FIRST_USER_GROUP = 1000
_CONTAINER_MARKERS = ((".dockerenv", "Docker"), ("run/.containerenv", "Podman"))


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device node and its possible vendors. `refusal_errno` is 0 if this user may open the node."""

    path: str
    vendors: tuple[str, ...]
    refusal_errno: int = 0
    owner: str = "root"
    group: str = "root"
    mode: int = 0o660


@dataclass(frozen=True, slots=True)
class Machine:
    """The cards, device nodes and user of this machine. `container` is the kind of container, or ""."""

    user: str = "root"
    groups: tuple[str, ...] = ()
    container: str = ""
    cards: tuple[PciDevice, ...] = ()
    nodes: tuple[DeviceNode, ...] = ()

    @property
    def host_cards(self) -> tuple[PciDevice, ...]:
        """Return the cards that are not assigned to virtual machines."""
        return tuple(card for card in self.cards if not card.is_passed_through)

    @property
    def bus_counts(self) -> dict[str, int]:
        """Return each vendor's card count, including the cards of virtual machines."""
        return pci.count_by_vendor(sorted(self.cards, key=lambda card: card.vendor))

    def nodes_of(self, vendor: str) -> tuple[DeviceNode, ...]:
        """Return the device nodes that may belong to the vendor."""
        return tuple(node for node in self.nodes if vendor in node.vendors)


def read_machine(root: Path, environment: Mapping[str, str]) -> Machine:
    """Read the cards, device nodes, user and container of the machine whose file system is at `root`."""
    cards = pci.find_accelerators(root / "sys/bus/pci/devices")
    vendor_by_address = {card.bus_id: card.vendor for card in cards}
    nodes = tuple(_device_nodes(root, vendor_by_address))
    return Machine(current_user(), group_names(), _container_kind(root, environment), cards, nodes)


def current_user() -> str:
    """Return the current user's name, or `user UID` if the user has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the user has no name, as in containers
        return f"user {os.getuid()}"


def group_names(first_id: int = 0) -> tuple[str, ...]:
    """Return the names of this process's groups whose ID is at least `first_id`."""
    group_ids = {os.getegid(), *os.getgroups()}
    return tuple(sorted({_group_name(group_id) for group_id in group_ids if group_id >= first_id}))


def _container_kind(root: Path, environment: Mapping[str, str]) -> str:
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return "Kubernetes"
    container = next((engine for marker, engine in _CONTAINER_MARKERS if (root / marker).exists()), "")
    return container or environment.get("container", "")


def node_patterns(vendor: str) -> tuple[str, ...]:
    """Return the path patterns of a vendor's device nodes."""
    return tuple(path for item in VENDORS if item.word == vendor for nodes in item.nodes for path in nodes.paths)


def _device_nodes(root: Path, vendor_by_address: Mapping[str, str]) -> Iterator[DeviceNode]:
    vendors_by_path: dict[Path, tuple[str, ...]] = {}
    for vendor in VENDORS:
        for pattern in node_patterns(vendor.word):
            for path in root.glob(pattern.lstrip("/")):
                address = (root / "sys/class/drm" / path.name / "device").resolve().name.lower()
                if not pattern.startswith(_RENDER_NODES) or vendor_by_address.get(address) == vendor.word:
                    vendors_by_path[path] = (*vendors_by_path.get(path, ()), vendor.word)
    for node, vendors in sorted(vendors_by_path.items()):
        with suppress(OSError):  # the file was removed after the listing
            status = node.stat()
            owner, group = user_name(status.st_uid), _group_name(status.st_gid)
            name, mode = f"/{node.relative_to(root)}", stat.S_IMODE(status.st_mode)
            yield DeviceNode(name, vendors, denial_errno(str(node)), owner, group, mode)


def _group_name(group_id: int) -> str:
    try:
        return grp.getgrgid(group_id).gr_name
    except KeyError:  # the container does not define this group of the host
        return str(group_id)


def user_name(uid: int) -> str:
    """Return the user's name, or the UID if the user has no name here."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # the container does not define this user of the host
        return str(uid)
