"""A node for tests of the ledger: cards with readings, owners that come and go, and clocks that a test sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from telemetry_daemon.state.accumulate import Accumulator
from telemetry_daemon.state.ledger import Ledger
from telemetry_daemon.state.ledger_file import SavedLedger
from telemetry_parsers.job_record import JobRecord
from telemetry_parsers.model import MergedDevice, MergedReading
from telemetry_parsers.ownership import Allocation, Claim, Owner

START = 1_700_000_000.0


def job(name: str, user: str = "u1042") -> Owner:
    return Owner("job", name, job_id=name, job_name="train 7B", user=user, account="physics")


def pod(name: str) -> Owner:
    return Owner("pod", f"ml/{name}/main", pod_namespace="ml", pod_name=name, container_name="main")


def has(
    owner: Owner,
    share: float = 1.0,
    started: float | None = None,
    *,
    is_allocated: bool = True,
    memory: float | None = None,
) -> Allocation:
    return Allocation(
        owner,
        share,
        "whole" if share == 1.0 else "equal",
        is_allocated,
        True,
        started=started,
        memory_used_bytes=memory,
    )


@dataclass
class Node:
    """All times are relative to the start of the test; the wall clock is ahead of that by `wall_ahead`."""

    cards: Sequence[str] = ("GPU-a",)
    saved: SavedLedger | None = None
    boot: str = "boot-1"
    now: float = 0.0
    wall_ahead: float = START
    owners: dict[str, tuple[Allocation, ...]] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    power: float = 100.0
    busy: float = 0.5
    more: Mapping[str, float] = field(default_factory=dict)
    interval: float = 2.0
    # The age of readings when they are merged.
    lag: float = 0.0

    def __post_init__(self) -> None:
        self.ledger = Ledger("node-1", self.boot, self.saved)
        self.accumulator = Accumulator(ledger=self.ledger)
        self.records: list[JobRecord] = []

    @property
    def wall(self) -> float:
        return self.now + self.wall_ahead

    def device(self, card: str) -> MergedDevice:
        values = {"utilization_ratio": self.busy, "power_watts": self.power, **self.more}
        readings = tuple(
            MergedReading(metric, "", value, "nvml", self.now - self.lag, self.interval)
            for metric, value in values.items()
        )
        return MergedDevice(
            "nvidia", 0, card, card[-1], "H100", readings=readings, allocations=self.owners.get(card, ())
        )

    def poll(self) -> None:
        self.see([self.device(card) for card in self.cards])

    def see(self, devices: Sequence[MergedDevice]) -> None:
        self.accumulator.integrate(devices)
        self.ledger.update(devices, self.now, self.wall, self.claims)
        self.records += self.ledger.take_completed()

    def runs(self, seconds: float, step: float = 2.0) -> None:
        """Poll every `step` seconds until this time has passed."""
        until = self.now + seconds
        while self.now + step <= until + 1e-9:
            self.now += step
            self.poll()

    def gives(self, *allocations: Allocation, card: str = "GPU-a") -> None:
        """Give these owners the card from the next poll on."""
        self.owners[card] = allocations

    def ends(self) -> list[JobRecord]:
        """End all allocations; return all records, the unallocated ones last."""
        for card in self.cards:
            self.owners[card] = ()
        self.poll()
        self.ledger.close()
        self.records += self.ledger.take_completed()
        return [*self.records, *(record for record in self.kept().jobs if record.owner.kind == "nobody")]

    def kept(self) -> SavedLedger:
        """Return what the daemon would save now."""
        saved = self.ledger.state_to_save()
        assert saved is not None
        return saved

    def restarted(self, after: float, **changes: object) -> Node:
        """Return the node with a new daemon that has loaded the ledger of this one."""
        changes.setdefault("saved", self.ledger.state_to_save())
        node = replace(self, now=self.now + after, **changes)  # type: ignore[arg-type]  # fields by name
        node.records = self.records
        return node


def by_name(records: Sequence[JobRecord]) -> dict[str, JobRecord]:
    return {record.owner.name or record.owner.kind: record for record in records}
