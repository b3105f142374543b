"""What is declared of a vendor, once: the daemon, the unit, the chart and the pages read it here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from telemetry_parsers.demo import Demo

# PCI classes of accelerators: base classes, and the coprocessors among the processors.
DISPLAY = 0x03
COPROCESSOR = 0x0B40
ACCELERATOR = 0x12


@dataclass(frozen=True, slots=True)
class Pci:
    """Which PCI functions are accelerators: those of a vendor id with one of these classes.

    `but_not` are device ids to leave out; `behind_bridge` leaves out what sits on the first bus: a part of the CPU.
    """

    vendor_id: int
    classes: tuple[int, ...] = (DISPLAY, COPROCESSOR, ACCELERATOR)
    but_not: tuple[int, ...] = ()
    behind_bridge: bool = False


@dataclass(frozen=True, slots=True)
class DeviceNodes:
    """Device nodes that the tools open: patterns of their paths, and their drivers' names in /proc/devices.

    The service manager's allow-list takes the drivers' names, or their major numbers where these never change.
    """

    paths: tuple[str, ...]
    drivers: tuple[str, ...]
    comment: str = ""


RENDER_NODES = DeviceNodes(("/dev/dri/renderD*",), ("226",), "/dev/dri/card*, renderD*")


@dataclass(frozen=True, slots=True)
class ToolMarks:
    """A tool, and the words that only it prints: they name it when its output was given to another tool's parser.

    Where `is_common`, other tools may print these words too, so the marks of all others are looked for first.
    `captures` is the folder of its real outputs among those that all projects share.
    """

    name: str
    marks: tuple[str, ...] = ()
    captures: str = ""
    is_common: bool = False


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of the node that a pod needs; its name is that of the pod's volume."""

    name: str
    path: str
    type: Literal["Directory", "File"] = "Directory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """How the Helm chart finds the vendor's nodes, and what their pods need.

    `labels` mark the nodes besides the labels that follow from PCI vendor id and `classes` (class and subclass).
    A pool that is `privileged` is off until somebody enables it.
    """

    comment: str
    sources: tuple[str, ...]
    classes: tuple[str, ...]
    labels: tuple[str, ...] = ()
    runtime_class: str = ""
    privileged: bool = False
    mounts: tuple[Mount, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """A vendor: `word` is the value of the label `vendor`, `name` is for people.

    `permissions` says what the daemon's user needs (docs/install.md). `lacks` are the core metrics that no capture gives,
    each with the reason. The simulator plays `demo` for the vendor's word, and each of `other_demos` for its own.
    `other_tools` are programs that people know and we do not run, each with the source that tells what it prints.
    """

    word: str
    name: str
    pci: Pci
    nodes: tuple[DeviceNodes, ...]
    permissions: str
    tools: tuple[ToolMarks, ...]
    pool: Pool
    demo: Demo
    other_demos: tuple[tuple[str, Demo], ...] = ()
    lacks: tuple[tuple[str, str], ...] = ()
    other_tools: tuple[tuple[str, str], ...] = ()
