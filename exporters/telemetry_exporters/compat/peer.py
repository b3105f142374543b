"""What a table of another exporter consists of: rows for devices, rows for the node, labels, and what it has that we have not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from telemetry_exporters.compat.told import Fact
from telemetry_exporters.compat.ways import Way
from telemetry_exporters.labels import Labels
from telemetry_parsers.model import Kind

MEBI = 1 / (1 << 20)
KIBI = 1 / (1 << 10)
PERCENT = 100.0
MEGA = 1e-6
MILLI = 1e3
MICRO = 1e6
NANO = 1e9


@dataclass(frozen=True, slots=True)
class Label:
    """A label of another exporter, and what it tells of a device."""

    name: str
    fact: Fact


@dataclass(frozen=True, slots=True)
class Row:
    """A family of another exporter: its name without the prefix, the way to its numbers, and what these are multiplied by.

    `near` says in what it differs from theirs; it is empty where the two are the same. Several rows may have one name and
    different labels. `only` says whether it is told of whole cards or of partitions alone.
    """

    name: str
    help: str
    way: Way
    times: float = 1.0
    kind: Kind = "gauge"
    labels: Labels = ()
    facts: tuple[Label, ...] = ()
    near: str = ""
    only: Literal["", "cards", "partitions"] = ""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A family about the other exporter itself: one of our own metrics, of a source and one of its polls, or the number of devices.

    Samples with other labels, such as the reasons of failures, are added up.
    """

    name: str
    help: str
    metric: str = ""
    source: str = ""
    polls: tuple[str, ...] = ()
    kind: Kind = "gauge"
    near: str = ""


@dataclass(frozen=True, slots=True)
class Missing:
    """Names of another exporter that no row gives, and why."""

    names: str
    why: str


@dataclass(frozen=True, slots=True)
class Peer:
    """Another exporter: where it is from, whose cards it tells, its port, its labels, and its rows.

    `hostname_labels` are the spellings of the label with the node's name, the usual one first; `node_label` is that of the rows
    about the exporter itself, empty where these have no labels.
    """

    name: str
    source: str
    vendors: tuple[str, ...]
    port: int
    prefix: str
    labels: tuple[Label, ...]
    rows: tuple[Row, ...]
    missing: tuple[Missing, ...]
    node_rows: tuple[NodeRow, ...] = ()
    node_label: str = ""
    has_partitions: bool = False
    hostname_labels: tuple[str, ...] = ()
