"""No sequence of bad reports makes page or memory grow past a limit, or displaces real devices."""

import gc
import sys
import types
from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits.fed_node import FedNode
from kits.snapshots import DEVICE_METRICS
from telemetry_daemon.recordings.alarms import AlarmDetector
from telemetry_daemon.state.health import PollResult, SourceFacts
from telemetry_daemon.state.history import History
from telemetry_daemon.state.store_state import AcceptedAttempt
from telemetry_exporters.documents import snapshot_json as json_form
from telemetry_exporters.prometheus import renderer
from telemetry_parsers import bounds
from telemetry_parsers.model import (
    Command,
    Device,
    Event,
    Identity,
    MergedDevice,
    Poll,
    Problem,
    Process,
    Reading,
    Report,
)

REQUEST = Command((("tool",),))
SOURCES = ("honest", "evil")
POLLS = tuple(Poll(name, REQUEST, interval=2.0) for name in ("readings", "inventory"))
CARD = Device("amd", 0, uuid="GPU-1234", bus_id="0000:03:00.0")
HONEST = Report(devices=(CARD,), readings=(Reading(0, "power_watts", 81.0),))


@dataclass(frozen=True)
class Evil:
    """The parts of a bad report; `n` is the number of the report, so that each has new names."""

    devices: int = 0
    words: int = 0
    others: int = 0
    parts: bool = False
    addresses: bool = True
    names: str = "new"
    poll: int = 0
    state: str = "ok"
    seconds: float = 2.0

    def report(self, n: int) -> Report:
        mark = {"new": f"{n}", "two": f"{n % 2}", "same": "s", "long": f"{n}" + "x" * 3000, "none": ""}[self.names]
        devices = tuple(self._device(position, mark) for position in range(self.devices))
        owner = 0 if devices else None
        return Report(
            outcome="ok" if devices else "no_devices",
            devices=devices,
            readings=(
                *(Reading(position, "power_watts", 5.0) for position in range(self.devices)),
                *(Reading(owner, "pcie_errors_total", 7.0, f"{mark}w{word}") for word in range(self.words)),
            ),
            events=tuple(Event(owner, f"{mark}e{k}") for k in range(self.others)),
            processes=tuple(Process(0, k, f"{mark}p") for k in range(self.others if devices else 0)),
            problems=tuple(Problem(f"{mark}", f"{mark}q{k}") for k in range(self.others)),
            unknown_fields=tuple(f"{mark}u{k}" for k in range(self.others)),
            facts=tuple((f"{mark}f{k}", mark) for k in range(self.others)),
            index_space=mark,
        )

    def _device(self, position: int, mark: str) -> Device:
        is_part = self.parts and position > 0
        return Device(
            "amd",
            None if is_part else position,
            uuid=f"GPU-{mark}-{position}-b1" if mark else None,
            bus_id=f"{position:04x}:{len(mark):02x}:00.0" if self.addresses else None,
            partition=str(position) if is_part else None,
            parent=0 if is_part else None,
            facts=tuple((f"{mark}f{k}", mark) for k in range(min(self.others, 100))),
        )


EVILS = st.builds(
    Evil,
    devices=st.sampled_from([0, 1, 2, 40, 200, 300]),
    words=st.sampled_from([0, 1, 100, 300]),
    others=st.sampled_from([0, 1, 70, 300]),
    parts=st.booleans(),
    addresses=st.booleans(),
    names=st.sampled_from(["new", "two", "same", "long", "none"]),
    poll=st.sampled_from([0, 0, 1]),
    state=st.sampled_from(["ok", "ok", "ok", "failed"]),
    seconds=st.sampled_from([0.0, 2.0, 2.0, 30.0]),
)


class Node(FedNode):
    """A store with an honest source and one that reports anything."""

    def __init__(self, identities: tuple[Identity, ...] = ()) -> None:
        sources = [SourceFacts(source, "amd", ("power_watts",)) for source in SOURCES]
        super().__init__(sources, wall_at_start=1.8e9, identities=identities)
        self.evil_reports = 0

    def put(self, source: str, report: Report | None, poll: Poll = POLLS[0], state: str = "ok") -> AcceptedAttempt:
        if state == "ok":
            return self.ingest(source, report, poll)
        return self.ingest(source, None, poll, PollResult("failed", "timeout", "x" * 9000))

    def live_through(self, evil: Evil) -> AcceptedAttempt:
        """Poll the honest source, then ingest the next report of the other source."""
        self.now += evil.seconds
        self.evil_reports += 1
        self.put("honest", HONEST)
        return self.put("evil", evil.report(self.evil_reports), POLLS[evil.poll], evil.state)

    def honest(self) -> MergedDevice:
        return next(device for device in self.store.snapshot().devices if device.uuid == CARD.uuid)

    def refused(self) -> int:
        return next(source.refused for source in self.store.snapshot().sources if source.source == "evil")


def weight(root: object) -> int:
    """Return the bytes of all that an object holds, without code and modules."""
    seen: set[int] = set()
    pending: list[object] = [root]
    total = 0
    while pending:
        item = pending.pop()
        if id(item) in seen or isinstance(item, type | types.ModuleType | types.FunctionType | types.MethodType):
            continue
        seen.add(id(item))
        total += sys.getsizeof(item)
        pending += gc.get_referents(item)
    return total


# At most 256 devices of two lists and 128 lost ones with one reading each, their names, and data of the first device.
MAX_SHOWN = 2 * bounds.MAX_DEVICES + bounds.MAX_LOST
PAGE_BYTES = MAX_SHOWN * (2 * bounds.MAX_NAME_LENGTH * 4 + bounds.MAX_FACTS * 2 * bounds.MAX_NAME_LENGTH) + (2 << 20)
HELD_BYTES = 64 << 20


def check(node: Node) -> None:
    snapshot = node.store.snapshot()
    assert len(snapshot.devices) <= MAX_SHOWN
    assert len(node.store.lost_ids()) <= bounds.MAX_LOST
    assert len(node.store.identities()) <= MAX_SHOWN + bounds.MAX_UNKNOWN
    assert max(len(source.problems) for source in snapshot.sources) <= bounds.MAX_PROBLEMS + 1
    honest = node.honest()
    assert (honest.up, [reading.value for reading in honest.readings if reading.metric == "power_watts"]) == (
        True,
        [81.0],
    )


@settings(max_examples=4)
@given(st.lists(EVILS, min_size=1, max_size=8))
def test_reports_stay_within_bounds_beside_the_honest_card(evils: list[Evil]) -> None:
    node = Node()
    node.put("honest", HONEST)
    for evil in evils:
        node.live_through(evil)
        check(node)
    snapshot = node.store.snapshot()
    assert len(renderer.text_page(snapshot)) <= PAGE_BYTES
    assert len(json_form.render(snapshot)) <= PAGE_BYTES
    assert weight(node.store) <= HELD_BYTES


SEQUENCES = {
    "a new uuid at each poll": [Evil(devices=1)],
    "a new uuid at each poll, without an address": [Evil(devices=1, addresses=False)],
    "hundreds of new uuids at each poll": [Evil(devices=300)],
    "each uuid for two polls": [Evil(devices=40, names="same"), Evil(devices=40), Evil(devices=40, names="two")],
    "parts of a card": [Evil(devices=200, parts=True)],
    "words, codes, facts, problems, processes, fields, index spaces": [
        Evil(devices=2, words=300, others=300, names="new")
    ],
    "words of a device that stays": [Evil(devices=1, words=100, names="new"), Evil(devices=1, words=100, names="same")],
    "long names": [Evil(devices=40, others=70, names="long")],
    "failures in between": [Evil(devices=200), Evil(devices=200, state="failed", seconds=30.0)],
}
# The others take seconds each.
QUICK = {"a new uuid at each poll", "words, codes, facts, problems, processes, fields, index spaces"}


@pytest.mark.parametrize(
    "evils",
    [
        pytest.param(evils, id=name, marks=() if name in QUICK else pytest.mark.long)
        for name, evils in SEQUENCES.items()
    ],
)
def test_memory_does_not_grow_with_reports(evils: list[Evil], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_PINNED_COUNTERS", 1000)
    node = Node()

    def live(reports: Iterable[int]) -> int:
        for number in reports:
            node.live_through(evils[number % len(evils)])
        check(node)
        node.store.snapshot()
        return weight(node.store)

    before = max(live(range(12)), live(range(12, 24)))
    assert live(range(24, 60)) <= before * 1.1 + (64 << 10)


def test_counters_with_new_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_PINNED_COUNTERS", 1000)
    node = Node()
    words = bounds.MAX_LABEL_VALUES
    for number in range(16 * bounds.MAX_PINNED_COUNTERS // words):
        readings = tuple(Reading(0, "pcie_errors_total", 1.0, f"{number}w{word}") for word in range(words))
        node.now += 2.0
        node.put("evil", Report(devices=(CARD,), readings=readings))
        if number == 0:
            before = weight(node.store)
    assert weight(node.store) < before + (1 << 20)


def test_labels_with_new_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_PINNED_COUNTERS", 1000)
    node, alarms, words = Node(), AlarmDetector(lambda _: None, float), bounds.MAX_LABEL_VALUES // 2
    node.store = node.new_store(history=History(node.clock), observer=alarms)
    labelled = [metric.key for metric in DEVICE_METRICS if metric.label]

    def live(polls: Iterable[int]) -> int:
        for number in polls:
            node.now += 2.0
            metric = labelled[number % len(labelled)]
            readings = tuple(
                Reading(0, key, 1.0, f"{number}w{word}") for key in {metric, "link_up"} for word in range(words)
            )
            node.put("evil", Report(devices=(CARD,), readings=readings))
        return weight((node.store, alarms))

    turn = len(labelled)
    before = max(live(range(2 * turn)), live(range(2 * turn, 4 * turn)))
    assert live(range(4 * turn, 16 * turn)) <= before * 1.1 + (64 << 10)


def test_invented_devices_never_displace_a_lost_one() -> None:
    node = Node()
    for _ in range(100):
        node.now += 2.0
        node.put("honest", Report(devices=(CARD, Device("amd", 1, uuid="GPU-5678", bus_id="0000:04:00.0"))))
    node.put("honest", HONEST)
    for number in range(24):
        node.now += 2.0
        node.put("honest", HONEST)
        node.put("evil", Evil(devices=40, addresses=False).report(number // 3))
    assert "GPU-5678" in node.store.lost_ids()
    assert len(node.store.lost_ids()) == bounds.MAX_LOST


def test_refused_devices_are_counted_and_logged_once() -> None:
    node = Node()
    merged = node.live_through(Evil(devices=300, names="same"))
    assert node.refused() == 300 - bounds.MAX_DEVICES
    assert ["300 reported devices" in problem.text for problem in merged.problems] == [True]
    page = renderer.text_page(node.store.snapshot()).decode()
    assert f'telemetry_devices_refused{{source="evil"}} {300.0 - bounds.MAX_DEVICES}\n' in page
    assert 'telemetry_devices_refused{source="honest"} 0.0\n' in page
    node.live_through(Evil(devices=2, names="same"))
    assert node.refused() > 0, "more are lost than are remembered"
    assert any(
        "telemetry forget --all-lost --vendor amd" in problem.text for problem in node.put("evil", None).problems
    )
    assert len(node.store.forget(lambda position: position.vendor == "amd")) == bounds.MAX_LOST
    node.live_through(Evil(devices=2, names="same"))
    assert (node.refused(), node.store.lost_ids()) == (0, ())


def test_most_seen_identity_is_kept_after_a_restart() -> None:
    """The count is saved as a power of two, so that the file is not written at every poll."""
    node = Node()
    counts = set()
    for _ in range(200):
        node.now += 2.0
        node.put("honest", HONEST)
        counts.add(node.store.identities())
    assert [identity.polls for identity in node.store.identities()] == [128]
    assert len(counts) == 8
    again = Node(identities=node.store.identities())
    again.put("honest", HONEST)
    assert [identity.polls for identity in again.store.identities()] == [128]
