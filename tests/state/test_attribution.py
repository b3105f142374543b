"""The owners of merged devices from poll to poll: claims that stay, counts, and facts that are reported later."""

from dataclasses import replace

import pytest

from state.clocked_store import CARDS, FAST, Node
from telemetry_daemon.state.attribution import Attribution
from telemetry_daemon.state.health import PollResult, SourceFacts
from telemetry_daemon.state.ledger import Ledger
from telemetry_parsers import bounds, steps
from telemetry_parsers.merge.allocations import MAX_OWNERS
from telemetry_parsers.model import Process, Report
from telemetry_parsers.ownership import Claim, DeviceName, Owner, StepCounts, Task

FIRST, SECOND = (DeviceName(bus, "bus_id", bus) for bus in ("0000:33:00.0", "0000:53:00.0"))
OWNERS_POLL = replace(FAST, lists_devices=False)
USED = replace(CARDS, processes=(Process(0, 7, "python", 2.0**30),))


class OwnedNode(Node):
    """A node with the sources of owners, and a ledger."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger("node")
        self.store = self.new_store(Attribution(self.clock, self.ledger), ledger=self.ledger)
        for source in ("slurm", "proc"):
            self.store.add_source(SourceFacts(source, "", ()))

    def claims(self, *claims: Claim) -> None:
        self.put(Report(claims=claims), poll=OWNERS_POLL, source="slurm")

    def tasks(self, *tasks: Task) -> None:
        self.put(Report(tasks=tasks), poll=OWNERS_POLL, source="proc")

    def later(self, seconds: float = 2.0, report: Report = CARDS) -> None:
        self.now += seconds
        self.put(report)

    def owners(self) -> list[list[tuple[str, str, float | None]]]:
        devices = self.store.snapshot().devices
        return [
            [
                (allocation.owner.name, allocation.owner.user, allocation.seconds_total)
                for allocation in device.allocations
            ]
            for device in devices
        ]


def job(number: str, user: str = "") -> Owner:
    return Owner("job", number, job_id=number, user=user)


@pytest.fixture
def node() -> OwnedNode:
    found = OwnedNode()
    found.put()
    return found


def test_claim_owns_a_card_until_it_expires(node: OwnedNode) -> None:
    node.claims(Claim(job("41"), names=(FIRST,)))
    assert node.owners() == [[("41", "", 0.0)], []]
    node.later()
    node.put(None, PollResult("failed", "timeout", "no answer"), OWNERS_POLL, "slurm")
    assert node.owners() == [[("41", "", 2.0)], []], "a failed poll ends no allocation"
    node.now += 8.0  # ten seconds after the claim of a poll with an interval of 2 s
    node.put()
    assert node.owners() == [[], []]


def test_hook_times_are_exact(node: OwnedNode) -> None:
    now = node.store.snapshot().wall_time
    node.later()
    node.claims(Claim(job("41"), names=(FIRST,), started=now + 1.0))
    assert node.owners()[0] == [("41", "", 1.0)]
    node.later()
    node.claims(Claim(job("41"), names=(FIRST,), started=now + 1.0, ended=now + 3.5))
    assert node.owners()[0] == []
    (record,) = (record for record in records(node) if record.owner.name == "41")
    assert record.end is None or record.end.time == now + 3.5


def records(node: OwnedNode):
    return (*node.ledger.take_completed(), *node.ledger.state_to_save().jobs)


def test_later_facts_are_added_to_the_record_only(node: OwnedNode) -> None:
    node.claims(Claim(job("41"), names=(FIRST,)))
    assert node.owners()[0][0][:2] == ("41", "")
    node.later()
    node.claims(Claim(job("41", "alice"), names=(FIRST,)))
    assert node.owners()[0][0][:2] == ("41", "")
    (record,) = (record for record in records(node) if record.owner.name == "41")
    assert record.owner.user == "alice"


def test_process_has_its_owner_from_its_task(node: OwnedNode) -> None:
    node.later(report=USED)
    assert node.owners()[0] == []
    node.tasks(Task(7, 1, user="bob", owner=Owner("user", "bob", user="bob")))
    assert node.owners()[0] == [("bob", "bob", 0.0)]
    assert [process.user for process in node.store.snapshot().devices[0].processes] == ["bob"]
    assert node.store.targets("proc").pids == (7,)
    assert node.store.targets("tool").pids == ()


def test_unmatched_claim_is_counted_and_reported(node: OwnedNode) -> None:
    node.claims(
        Claim(job("41"), names=(DeviceName("GPU-gone", "uuid", "GPU-gone"),)), Claim(job("42"), names=(SECOND,))
    )
    snapshot = node.store.snapshot()
    assert [
        (sample.labels, sample.value)
        for sample in snapshot.daemon_samples
        if sample.metric == "telemetry_claims_unresolved"
    ] == [((("source", "slurm"),), 1.0)]
    (problem,) = next(status for status in snapshot.sources if status.source == "slurm").problems
    assert "GPU-gone" in problem.text
    node.claims(Claim(job("42"), names=(SECOND,)))
    assert [
        sample.value
        for sample in node.store.snapshot().daemon_samples
        if sample.metric == "telemetry_claims_unresolved"
    ] == [0.0]


def test_unmatched_claims_wait_for_the_inventory() -> None:
    node = OwnedNode()
    node.store.await_inventories({("tool", FAST.name): "nvidia"})
    node.claims(Claim(job("41"), names=(FIRST,)), Claim(job("42"), names=(DeviceName("no", "uuid", "no"),)))
    assert [problem for status in node.store.snapshot().sources for problem in status.problems] == []
    assert "telemetry_claims_unresolved" not in {sample.metric for sample in node.store.snapshot().daemon_samples}
    node.put()
    (problem,) = [problem for status in node.store.snapshot().sources for problem in status.problems]
    assert problem.where == "job 42"
    assert node.owners()[0][0][0] == "41"


@pytest.mark.parametrize("result", [PollResult("released"), PollResult("stuck"), PollResult("failed", "timeout")])
def test_claim_of_a_card_whose_source_cannot_list_is_no_problem(node: OwnedNode, result: PollResult) -> None:
    node.store.add_source(SourceFacts(steps.SOURCE, "", ()))
    node.put(None, result)
    node.now += 40.0
    node.claims(Claim(job("41"), names=(FIRST,)))
    counts = (StepCounts("steps.json", 0, "41", "0", FIRST, 7.0),)
    node.put(Report(steps=counts), poll=OWNERS_POLL, source=steps.SOURCE)
    snapshot = node.store.snapshot()
    assert node.ups() == [None, None]
    assert [problem for status in snapshot.sources for problem in status.problems] == []
    assert "telemetry_claims_unresolved" not in {sample.metric for sample in snapshot.daemon_samples}


def test_claims_and_owners_are_bounded(node: OwnedNode) -> None:
    for turn in range(2):
        names = [f"{turn}-{number}" for number in range(2 * bounds.MAX_CLAIMS)]
        lost = (Claim(job(name), names=(DeviceName(f"GPU-{name}", "uuid", f"GPU-{name}"),)) for name in names[1:])
        long = Claim(job("x" * 10_000), names=(FIRST,))
        shared = (Claim(job(name), names=(SECOND,), replica=name) for name in names[:100])
        node.claims(long, Claim(job("41"), names=(FIRST,)), *shared, *lost)
        node.later()
        snapshot = node.store.snapshot()
        first, second = snapshot.devices
        assert [allocation.owner.name for allocation in first.allocations] == ["41"]
        assert len(second.allocations) == MAX_OWNERS
        assert sum(allocation.share for allocation in second.allocations) == pytest.approx(1.0)
        (status,) = (source for source in snapshot.sources if source.source == "slurm")
        assert len(status.problems) <= bounds.MAX_PROBLEMS
        assert all(len(problem.text) <= bounds.MAX_TEXT_LENGTH for problem in status.problems)
