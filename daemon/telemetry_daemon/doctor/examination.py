"""All facts of a node held against each other: what is found, in the order in which it is worth reading. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from telemetry_daemon.doctor import beside, bus, cards, kernel, limits, sources
from telemetry_daemon.doctor.beside import Beside
from telemetry_daemon.doctor.bus import Listing
from telemetry_daemon.doctor.fared import fared
from telemetry_daemon.doctor.findings import Finding
from telemetry_daemon.doctor.limits import Folder, Limits
from telemetry_daemon.doctor.machine import Machine
from telemetry_daemon.doctor.sources import Patient
from telemetry_daemon.doctor.view import DaemonView
from telemetry_daemon.state.flights import Flight
from telemetry_parsers.model import Snapshot


@dataclass(frozen=True, slots=True)
class Examined:
    """A node's facts and what was found in them. Of another node only its daemon's view is known: `other`.

    `known` was found while they were collected: plugins that do not load, a configuration that cannot be used.
    `expected` is how many devices of each vendor there should be. `is_partial` says that only some sources were asked, so that nothing is said of the rest of the node.
    """

    snapshot: Snapshot
    patients: tuple[Patient, ...]
    machine: Machine = field(default_factory=Machine)
    limits: Limits = field(default_factory=Limits)
    folders: tuple[Folder, ...] = ()
    daemon: Beside = field(default_factory=Beside)
    listed: tuple[Listing, ...] = ()
    known: tuple[Finding, ...] = ()
    flights: tuple[Flight, ...] = ()
    expected: Mapping[str, int] = field(default_factory=dict)
    other: DaemonView | None = None
    owners_are_told: bool = False
    is_partial: bool = False
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


def examined(facts: Examined) -> Examined:
    """The facts with the findings, and with what is as it should be and explains much."""
    if facts.other is not None:
        return replace(facts, findings=tuple(_of_other(facts.patients, facts.other)))
    given = bus.all_given(facts.machine, facts.listed, facts.expected)
    notes = (*kernel.notes(facts.machine), *bus.notes(given))
    return replace(facts, findings=tuple(_of_node(facts, {one.source for one in given})), notes=notes)


def of_other_node(view: DaemonView) -> Examined:
    """The facts of another node: what its daemon tells of it."""
    patients = tuple(Patient(status, view.snapshot.devices) for status in view.snapshot.sources)
    return Examined(view.snapshot, patients, other=view)


def _of_node(facts: Examined, complete: Collection[str]) -> Iterator[Finding]:
    """What is wrong; `complete` are the sources that list all that a container was given."""
    yield from facts.known
    if facts.is_partial:
        yield from sources.findings(facts.patients)
        return
    snapshots = [facts.snapshot, *(view.snapshot for view in [facts.daemon.view] if view is not None and view.is_real)]
    yield from cards.broken(snapshots, facts.flights)
    yield from cards.too_few(snapshots, facts.expected)
    machine = facts.machine
    vendors = sorted(
        {*machine.on_bus, *(one for node in machine.nodes if len(node.vendors) == 1 for one in node.vendors)}
    )
    yield from kernel.findings(machine, [fared(facts.snapshot, vendor, complete) for vendor in vendors])
    yield from sources.findings(facts.patients, beside.fine(facts.daemon), complete)
    addresses = {
        vendor: [card.bus_id for card in machine.own_cards if card.vendor == vendor] for vendor in machine.on_bus
    }
    yield from bus.findings(addresses, facts.listed, facts.snapshot.devices)
    yield from beside.findings(facts.snapshot, facts.daemon)
    yield from limits.findings_of_container(facts.limits, machine.container)
    yield from limits.findings_of_unit(facts.daemon.unit)
    yield from limits.findings_of_proc(facts.limits, owners_are_told=facts.owners_are_told)
    yield from limits.findings_of_folders(facts.folders, machine.container)


def _of_other(patients: Sequence[Patient], view: DaemonView) -> Iterator[Finding]:
    there = cards.present(view.snapshot)
    complete = {one.source for one in view.snapshot.sources if view.expected.get(one.vendor) == there[one.vendor]}
    yield from sources.findings(patients, complete=complete)
    if view.is_real:
        yield from cards.broken([view.snapshot])
        yield from cards.too_few([view.snapshot], view.expected)
        yield from bus.findings_from_afar(view.on_bus, view.snapshot.devices)
