"""What the kernel shows us of accelerators: cards with their drivers, device nodes, and whether we are in a container."""

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
from telemetry_daemon.readers.device_nodes import why_denied
from telemetry_daemon.readers.pci import PciDevice
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.vendors import VENDORS

# Render nodes belong to the vendor of the card behind them; every other pattern says whose its nodes are.
_SHARED = "/dev/dri/"
# As Linux distributions number the groups of people and of their projects.
OF_PEOPLE = 1000
_MARKS = ((".dockerenv", "Docker"), ("run/.containerenv", "Podman"))


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device node, the vendors whose it may be, and the errno with which we may not open it (0: we may)."""

    path: str
    vendors: tuple[str, ...]
    refusal: int = 0
    owner: str = "root"
    group: str = "root"
    mode: int = 0o660


@dataclass(frozen=True, slots=True)
class Machine:
    """All of it; `container` is the kind of container that we are in, empty outside of one."""

    user: str = "root"
    groups: tuple[str, ...] = ()
    container: str = ""
    cards: tuple[PciDevice, ...] = ()
    nodes: tuple[DeviceNode, ...] = ()

    @property
    def own_cards(self) -> tuple[PciDevice, ...]:
        """The cards that were not given to virtual machines."""
        return tuple(card for card in self.cards if not card.given_away)

    @property
    def on_bus(self) -> dict[str, int]:
        """How many cards of each vendor there are, those of virtual machines included."""
        return pci.counts(sorted(self.cards, key=lambda card: card.vendor))

    def nodes_of(self, vendor: str) -> tuple[DeviceNode, ...]:
        """The device nodes that may be the vendor's."""
        return tuple(node for node in self.nodes if vendor in node.vendors)


def machine(root: Path, environment: Mapping[str, str]) -> Machine:
    """The machine whose files lie below the root. No card is woken."""
    cards = pci.scan(root / "sys/bus/pci/devices")
    vendor_at = {card.bus_id: card.vendor for card in cards}
    return Machine(user(), groups(), _container(root, environment), cards, tuple(_nodes(root, vendor_at)))


def user() -> str:
    """The name of the user who runs this."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in containers
        return f"user {os.getuid()}"


def groups(least_number: int = 0) -> tuple[str, ...]:
    """The names of the groups that this process is in; those with lower numbers are left out."""
    numbers = {os.getegid(), *os.getgroups()}
    return tuple(sorted({_group_name(number) for number in numbers if number >= least_number}))


def _container(root: Path, environment: Mapping[str, str]) -> str:
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return "Kubernetes"
    marked = next((kind for mark, kind in _MARKS if (root / mark).exists()), "")
    return marked or environment.get("container", "")


def patterns_of(vendor: str) -> tuple[str, ...]:
    """The patterns of a vendor's device nodes."""
    return tuple(path for one in VENDORS if one.word == vendor for nodes in one.nodes for path in nodes.paths)


def _nodes(root: Path, vendor_at: Mapping[str, str]) -> Iterator[DeviceNode]:
    vendors_of: dict[Path, tuple[str, ...]] = {}
    for vendor in VENDORS:
        for pattern in patterns_of(vendor.word):
            for place in root.glob(pattern.lstrip("/")):
                behind = root / "sys/class/drm" / place.name / "device"
                if not pattern.startswith(_SHARED) or vendor_at.get(behind.resolve().name.lower()) == vendor.word:
                    vendors_of[place] = (*vendors_of.get(place, ()), vendor.word)
    for place, vendors in sorted(vendors_of.items()):
        with suppress(OSError):  # gone since it was listed
            status = place.stat()
            owner, group = user_name(status.st_uid), _group_name(status.st_gid)
            path, mode = f"/{place.relative_to(root)}", stat.S_IMODE(status.st_mode)
            yield DeviceNode(path, vendors, why_denied(str(place)), owner, group, mode)


def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:  # a group of the host that a container does not know
        return str(number)


def user_name(number: int) -> str:
    """The name of a user; the number where it has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # a user of the host that a container does not know
        return str(number)
