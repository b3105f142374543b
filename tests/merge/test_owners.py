"""The owners' shares of each card: claims compared with running processes."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_parsers.merge.allocations import MAX_OWNERS, NodeOwners, cards_with_allocations, find_owners
from telemetry_parsers.merge.owner_registry import SourceClaim
from telemetry_parsers.model import Absent, MergedDevice
from telemetry_parsers.ownership import Allocation, Claim, DeviceName, NameKind, Owner, Process, Task

GIB = 2.0**30
NOW = 1_700_000_000.0


def card(number: int, *processes: Process, **more: object) -> MergedDevice:
    device = MergedDevice(
        "nvidia",
        number,
        f"GPU-{number}",
        str(number),
        "NVIDIA H100 80GB HBM3",
        uuid=f"GPU-12ab34cd-{number}",
        bus_id=f"0000:0{number}:00.0",
        facts=(("minor", str(7 - number)),),
        processes=processes,
    )
    return replace(device, **more)  # type: ignore[arg-type]  # the fields that a case names


def instance(number: int, parent: MergedDevice, profile: str, *processes: Process) -> MergedDevice:
    return card(
        9,
        *processes,
        index=parent.index,
        id=f"MIG-{number}",
        device=f"{parent.device}:{number}",
        uuid=f"MIG-56ef78ab-{number}",
        bus_id=parent.bus_id,
        parent=parent.id,
        partition=str(number),
        facts=(("gpu_instance", str(number + 5)), ("profile", profile)),
    )


def pod(name: str, namespace: str = "ml", container: str = "main") -> Owner:
    return Owner("pod", f"{namespace}/{name}/{container}", namespace, name, container)


def job(number: str, user: str = "", account: str = "") -> Owner:
    return Owner("job", number, job_id=number, user=user, account=account)


def user(name: str) -> Owner:
    return Owner("user", name, user=name)


def named(text: str, way: NameKind = "uuid", **more: str) -> DeviceName:
    return DeviceName(text, way, text, **more)


def claimed(source: str, owner: Owner, *names: DeviceName, keys: tuple[str, ...] = (), **more: object) -> SourceClaim:
    return SourceClaim(source, replace(Claim(owner, keys, names), **more))  # type: ignore[arg-type]  # as above


def task(pid: int, owner: Owner, *keys: str, name: str = "alice") -> Task:
    return Task(pid, pid * 100, NOW - 60, name, "python", "", owner, keys)


def process(pid: int, gib: float | None = 1.0, busy: float | None = None, **more: str) -> Process:
    used = None if gib is None else gib * GIB
    return replace(Process(0, pid, "python", used, utilization_ratio=busy), **more)  # type: ignore[arg-type]  # as above


def of(
    devices: tuple[MergedDevice, ...], claims: tuple[SourceClaim, ...] = (), tasks: tuple[Task, ...] = ()
) -> NodeOwners:
    return find_owners(devices, claims, {task.pid: task for task in tasks}, NOW)


def shares_of(found: NodeOwners, position: int = 0) -> list[tuple[str, float, str, bool | None]]:
    return [
        (allocation.owner.name, round(allocation.share, 4), allocation.basis, allocation.is_used)
        for allocation in found.devices[position].allocations
    ]


def test_unallocated_card_is_not_changed():
    device = card(0)
    found = of((device,))
    assert found.devices[0].apply_to(device) is device


@pytest.mark.parametrize(
    "name",
    [
        named("GPU-12ab34cd-1"),
        named("12ab34cd-1"),
        named("0000:01:00.0", "bus_id"),
        named("1", "index"),
        named("6", "minor"),
        named("1", "index", vendor="nvidia"),
    ],
    ids=lambda name: f"{name.way}-{name.value}",
)
def test_a_claim_finds_its_card_by_any_of_its_names(name):
    found = of((card(0), card(1)), (claimed("kubelet", pod("train"), name),))
    assert (shares_of(found, 0), shares_of(found, 1)) == ([], [("ml/train/main", 1.0, "whole", None)])


@pytest.mark.parametrize(
    "name",
    [
        named("GPU-gone"),
        named("9", "index"),
        named("0", "index", vendor="amd"),
        named("all", "index"),
        named("0", "minor"),
        named("1", "index"),  # two cards have it
    ],
    ids=str,
)
def test_a_name_that_fits_no_card_is_a_problem_and_no_guess(name):
    found = of((card(0), card(1), card(2, index=1)), (claimed("kubelet", pod("train"), name),))
    assert [shares_of(found, position) for position in (0, 1, 2)] == [[], [], []]
    assert dict(found.unresolved) == {"kubelet": 1}
    ((source, problem),) = found.problems
    assert source == "kubelet"
    assert repr(name.text) in problem.text
    assert problem.where == "pod ml/train/main"


def test_minor_numbers_are_counted_if_none_is_reported():
    cards = tuple(
        card(number, vendor="amd", facts=(("render_node", f"renderD{render}"),))
        for number, render in ((0, 136), (1, 128), (2, 144))
    )
    found = of(cards, (claimed("slurm", job("7"), named("1", "minor")),))
    assert [shares_of(found, position) for position in range(3)] == [[("7", 1.0, "whole", None)], [], []]


def test_claims_of_several_sources_for_a_job_are_one_owner():
    claims = (
        claimed("slurm", job("41", "alice", "physics"), named("7", "minor"), keys=("slurm:41", "sluid:sAAA")),
        claimed("job-map", job("41"), named("0", "index"), keys=("slurm:41",)),
    )
    tasks = (task(100, Owner("job", "sAAA"), "sluid:sAAA"),)
    (allocation,) = of((card(0, process(100, 4.0)),), claims, tasks).devices[0].allocations
    assert allocation == Allocation(
        job("41", "alice", "physics"), 1.0, "whole", True, True, ("job-map", "proc", "slurm"), 4.0 * GIB
    )


def test_processes_of_others_on_an_allocated_card_are_counted_as_non_owners():
    claims = (claimed("slurm", job("41"), named("7", "minor"), keys=("slurm:41",)),)
    tasks = (task(1, job("41"), "slurm:41"), task(2, user("bob")), task(3, user("eve")))
    device = card(0, process(1, 4.0), process(2, 2.0), process(3, 1.0))
    (found,) = of((device,), claims, tasks).devices
    assert [allocation.owner.name for allocation in found.allocations] == ["41"]
    assert found.non_owner_bytes == 3.0 * GIB
    assert [process.owner.name for process in found.processes if process.owner] == ["41", "bob", "eve"]


@pytest.mark.parametrize(
    ("of_job", "of_other", "other", "expected"),
    [
        (process(1, 3.0, 0.6), process(2, 1.0, 0.2), user("bob"), (0.75, "utilization")),
        (process(1, 3.0), process(2, 1.0), user("bob"), (0.75, "memory")),
        (None, process(2, 1.0), user("bob"), (1.0, "whole")),
        (None, process(2, 1.0, 0.2), user("bob"), (0.0, "utilization")),
        (process(1, None), process(2, None), user("bob"), (1.0, "whole")),
        (process(1, 3.0), process(2, 1.0), user("alice"), (1.0, "whole")),
        (process(1, 3.0), process(2, 1.0), job("42", "alice"), (0.75, "memory")),
        (process(1, 3.0), process(2, 1.0), None, (1.0, "whole")),
    ],
    ids=[
        "utilization",
        "memory",
        "a job without processes beside held memory",
        "a job without processes beside work",
        "nothing measured",
        "the same user",
        "another job of the user",
        "an unknown process",
    ],
)
def test_memory_of_non_owners_is_not_in_the_share_of_the_job(of_job, of_other, other, expected):
    claims = (claimed("slurm", job("41", "alice"), named("7", "minor"), keys=("slurm:41",)),)
    tasks = [task(1, job("41"), "slurm:41")]
    if other is not None:
        tasks.append(task(2, other, name=other.name))
    running = (of_other,) if of_job is None else (of_job, of_other)
    (allocation,) = of((card(0, *running),), claims, tuple(tasks)).devices[0].allocations
    assert (allocation.owner.name, allocation.is_allocated) == ("41", True)
    assert (pytest.approx(allocation.share), allocation.basis) == expected


def test_owners_are_users_of_processes_if_there_is_no_claim():
    device = card(0, process(1, 3.0), process(2, 1.0))
    found = of((device,), (), (task(1, user("alice")), task(2, user("bob"))))
    assert shares_of(found) == [("alice", 0.75, "memory", True), ("bob", 0.25, "memory", True)]
    assert not any(allocation.is_allocated for allocation in found.devices[0].allocations)
    assert found.devices[0].non_owner_bytes is None


def test_unknown_process_leaves_the_use_undecided():
    claims = (claimed("kubelet", pod("train"), named("GPU-12ab34cd-0")),)
    (found,) = of((card(0, process(1)),), claims).devices
    (allocation,) = found.allocations
    assert (allocation.is_used, allocation.memory_used_bytes, found.non_owner_bytes) == (
        None,
        None,
        Absent.NOT_REPORTED,
    )


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (process(1, 3.0, 0.6), process(2, 1.0, 0.2), [("ml/a/main", 0.75, "utilization"), ("ml/b/main", 0.25, "utilization")]),
        (process(1, 3.0, 0.6), process(2, 1.0), [("ml/a/main", 0.75, "memory"), ("ml/b/main", 0.25, "memory")]),
        (process(1, 3.0, 0.0), process(2, 1.0, 0.0), [("ml/a/main", 0.75, "memory"), ("ml/b/main", 0.25, "memory")]),
        (process(1, None), process(2, 1.0), [("ml/a/main", 0.5, "equal"), ("ml/b/main", 0.5, "equal")]),
    ],
)  # fmt: skip
def test_shared_card_is_divided_by_measured_use(first, second, expected):
    claims = (
        claimed("kubelet", pod("a"), named("GPU-12ab34cd-0"), keys=("container:a",), replica="0"),
        claimed("kubelet", pod("b"), named("GPU-12ab34cd-0"), keys=("container:b",), replica="1"),
    )
    tasks = (task(1, Owner("container", "a"), "container:a"), task(2, Owner("container", "b"), "container:b"))
    found = of((card(0, first, second),), claims, tasks)
    assert [row[:3] for row in shares_of(found)] == expected


def test_instances_bill_their_slices_on_the_card():
    whole = card(0)
    large, small = instance(1, whole, "3g.40gb", process(1, 8.0)), instance(2, whole, "1g.10gb")
    claims = (
        claimed("kubelet", pod("a"), named("MIG-56ef78ab-1"), keys=("container:a",)),
        claimed("kubelet", pod("b"), named("0", "minor", instance="7"), named("0:2", "index")),
    )
    devices = (whole, large, small)
    found = of(devices, claims, (task(1, Owner("container", "a"), "container:a"),))
    card_level = [("ml/a/main", round(3 / 7, 4), "partition", True), ("ml/b/main", round(1 / 7, 4), "partition", None)]
    assert [shares_of(found, position) for position in range(3)] == [card_level, card_level[:1], card_level[1:]]
    shown = [node_share.apply_to(device) for node_share, device in zip(found.devices, devices, strict=True)]
    assert [(device.id, allocation.owner.pod_name) for device, allocation in cards_with_allocations(shown)] == [
        ("GPU-0", "a"),
        ("GPU-0", "b"),
    ]


def test_a_process_that_the_card_lists_with_its_instance_runs_on_the_instance():
    whole = card(0, process(1, 8.0, instance="6"))
    found = of((whole, instance(1, whole, "3g.40gb")), (), (task(1, user("alice")),))
    assert shares_of(found, 0) == shares_of(found, 1) == [("alice", round(3 / 7, 4), "partition", True)]


def test_pod_belongs_to_the_card_of_its_processes():
    claims = (claimed("kubelet", pod("train"), named("GPU-12ab34cd-0"), keys=("pod:uid-1",)),)
    tasks = (task(1, Owner("container", "c"), "container:c", "pod:uid-1"),)
    found = of((card(0), card(1, process(1))), claims, tasks)
    assert (shares_of(found, 0), shares_of(found, 1)) == ([], [("ml/train/main", 1.0, "whole", True)])
    assert [problem.text for _, problem in found.problems] == [
        "'GPU-12ab34cd-0': the owner's processes use nvidia 1, not nvidia 0"
    ]


def test_process_of_a_job_on_another_card_is_a_non_owner():
    claims = (
        claimed("slurm", job("41"), named("7", "minor"), keys=("slurm:41",)),
        claimed("slurm", job("42"), named("6", "minor")),
    )
    found = of((card(0), card(1, process(1, 2.0))), claims, (task(1, job("41"), "slurm:41"),))
    assert [row[0] for row in (*shares_of(found, 0), *shares_of(found, 1))] == ["41", "42"]
    assert found.devices[1].non_owner_bytes == 2.0 * GIB


def test_live_claim_wins_over_another_claim():
    claims = (
        claimed("kubelet", pod("old"), named("GPU-12ab34cd-0"), keys=("pod:1",)),
        claimed("kubelet", pod("new"), named("GPU-12ab34cd-0"), keys=("pod:2",)),
    )
    both = of((card(0),), claims)
    with_process = of((card(0, process(1)),), claims, (task(1, Owner("container", "c"), "pod:2"),))
    assert [name for name, *_ in shares_of(both)] == ["ml/new/main", "ml/old/main"]
    assert [name for name, *_ in shares_of(with_process)] == ["ml/new/main"]


def test_ended_owner_has_no_card():
    claims = (
        claimed("kubelet", pod("old"), named("GPU-12ab34cd-0"), lives=False),
        claimed("slurm", job("41"), named("7", "minor"), ended=NOW - 1),
    )
    assert shares_of(of((card(0),), claims)) == []


def test_process_of_an_unknown_container_belongs_to_the_pod():
    claims = tuple(
        claimed("kubelet", pod("train", container=name), *names, keys=(f"podname:ml/train/{name}", "pod:u"))
        for name, names in (("main", (named("GPU-12ab34cd-0"),)), ("side", ()))
    )
    found = of((card(0, process(1)),), claims, (task(1, Owner("container", "x"), "container:x", "pod:u"),))
    assert shares_of(found) == [("ml/train/main", 1.0, "whole", True)]


def test_mps_server_has_no_owner():
    server = replace(process(1, 0.5), name="/usr/bin/nvidia-cuda-mps-server")
    claims = (claimed("slurm", job("41"), named("7", "minor"), keys=("slurm:41",)),)
    (found,) = of(
        (card(0, server, process(2)),), claims, (task(1, user("root")), task(2, job("41"), "slurm:41"))
    ).devices
    assert found.non_owner_bytes == 0.0


def test_two_claims_of_one_owner_on_an_instance_are_one():
    """Each has the key of the other owner, so their sources contradict each other."""
    whole = card(0)
    part = instance(1, whole, "2g.20gb", process(1), process(2))
    claims = (claimed("kubelet", pod("a"), keys=("container:c",)), claimed("slurm", job("1"), keys=("slurm:1",)))
    tasks = (task(1, pod("a"), "slurm:1", name=""), task(2, job("1"), "container:c", name=""))
    found = of((whole, part), claims, tasks)
    assert [row[0] for row in shares_of(found, 1)] == ["ml/a/main"]
    assert sum(allocation.share for allocation in found.devices[1].allocations) == pytest.approx(2 / 7)


def test_owners_beyond_the_limit_become_one():
    people = tuple(task(pid, user(f"u{pid:02}")) for pid in range(1, 31))
    device = card(0, *(process(pid, float(pid)) for pid in range(1, 31)))
    allocations = of((device,), (), people).devices[0].allocations
    assert len(allocations) == MAX_OWNERS
    assert [item.owner.kind for item in allocations].count("others") == 1
    assert sum(item.share for item in allocations) == pytest.approx(1.0)
    assert sum(item.memory_used_bytes or 0.0 for item in allocations) == pytest.approx(sum(range(1, 31)) * GIB)


OWNERS = st.sampled_from([pod("a"), pod("b"), job("1"), job("2"), user("x"), Owner("container", "c")])
KEYS = st.lists(st.sampled_from(["pod:1", "pod:2", "container:c", "slurm:1", "sluid:s"]), max_size=3, unique=True)
NAMES = st.sampled_from(
    [named("GPU-12ab34cd-0"), named("1", "index"), named("MIG-56ef78ab-1"), named("7", "minor", instance="6"), named("nothing")]
)  # fmt: skip
CLAIMS = st.builds(
    lambda source, owner, keys, names, replica, lives: claimed(
        source, owner, *names, keys=tuple(keys), replica=replica, lives=lives
    ),
    st.sampled_from(["kubelet", "slurm", "job-map"]),
    OWNERS,
    KEYS,
    st.lists(NAMES, max_size=2),
    st.sampled_from(["", "0"]),
    st.sampled_from([None, True, False]),
)
PROCESSES = st.lists(
    st.builds(process, st.integers(1, 6), st.sampled_from([None, 0.0, 1.0, 5.0]), st.sampled_from([None, 0.0, 0.5])),
    max_size=5,
    unique_by=lambda process: process.pid,
)


@given(
    st.lists(CLAIMS, max_size=6),
    st.dictionaries(st.integers(1, 6), st.tuples(OWNERS, KEYS), max_size=6),
    st.tuples(PROCESSES, PROCESSES, PROCESSES),
    st.randoms(use_true_random=False),
)
def test_shares_never_exceed_a_card_in_any_order(claims, people, processes, order):
    first = card(0, *processes[0])
    devices = (first, instance(1, first, "2g.20gb", *processes[1]), card(1, *processes[2]))
    tasks = {pid: task(pid, owner, *keys) for pid, (owner, keys) in people.items()}
    found = find_owners(devices, claims, tasks, NOW)
    assert found == find_owners(devices, _shuffled(claims, order), dict(_shuffled(list(tasks.items()), order)), NOW)
    shown = [node_share.apply_to(device) for node_share, device in zip(found.devices, devices, strict=True)]
    for device in shown:
        assert sum(allocation.share for allocation in device.allocations) <= 1.0 + 1e-9
        assert len({allocation.owner for allocation in device.allocations}) == len(device.allocations)
    owners_of = {}
    for device in shown:
        for process in device.processes:
            assert owners_of.setdefault(process.pid, process.owner) == process.owner


def _shuffled(items: list[Any], order: random.Random) -> list[Any]:
    shuffled = list(items)
    order.shuffle(shuffled)
    return shuffled
