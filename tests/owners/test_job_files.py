"""Answers of the jobs reader become owners of merged cards."""

import pytest

from telemetry_parsers.merge.allocations import NodeOwners, find_owners
from telemetry_parsers.merge.owner_registry import SourceClaim
from telemetry_parsers.model import Capture, MergedDevice, Output, Plain
from telemetry_parsers.owners import job_files, job_maps
from telemetry_parsers.ownership import Owner, Process, Task

PARSERS = {"slurm": job_files.SLURM, "pbs": job_files.PBS, "flux": job_files.FLUX, "job-map": job_maps.PARSER}
UUID = "GPU-6c1e0d5a-1111-2222-3333-444455556666"


def card(index: int, vendor: str = "nvidia", **facts: str) -> MergedDevice:
    items = tuple(facts.items())
    return MergedDevice(
        vendor, index, f"{vendor}-{index}", str(index), "model", uuid=UUID if index == 7 else None, facts=items
    )


# The tool's numbers are in the reverse order of the device files, as after an exchange of boards.
CARDS = (card(0, minor="1"), card(1, minor="0"), card(7, minor="2"))
AMD = (card(0, "amd", render_node="renderD130"), card(1, "amd", render_node="renderD128"))


def asked(
    scheduler: str, *jobs: Plain, cards: tuple[MergedDevice, ...] = CARDS, tasks: dict[int, Task] | None = None
) -> NodeOwners:
    parser = PARSERS[scheduler]
    poll = parser.polls[0]
    report = parser.parse(Capture(scheduler, poll.name, poll.request, (Output(scheduler, status=0, data=list(jobs)),)))
    assert report.outcome == "ok"
    return find_owners(cards, [SourceClaim(scheduler, claim) for claim in report.claims], tasks or {}, 2000.0)


def owners(result: NodeOwners, cards: tuple[MergedDevice, ...] = CARDS) -> dict[int | None, list[str]]:
    return {
        device.index: [item.owner.name for item in device_owners.allocations]
        for device, device_owners in zip(cards, result.devices, strict=True)
        if device_owners.allocations
    }


@pytest.mark.parametrize(
    ("scheduler", "devices", "cards", "expected"),
    [
        pytest.param("slurm", ["0"], CARDS, {1: ["5"]}, id="Slurm counts device files, not the tool's numbers"),
        pytest.param("pbs", ["1"], CARDS, {0: ["5"]}, id="so does PBS"),
        pytest.param("flux", ["0"], CARDS, {0: ["5"]}, id="Flux counts as tools do"),
        pytest.param("slurm", [UUID], CARDS, {7: ["5"]}, id="a uuid"),
        pytest.param("slurm", ["0"], AMD, {1: ["5"]}, id="AMD: the first render node"),
        pytest.param("slurm", ["0"], (*CARDS, *AMD), {}, id="two vendors have such a number: no guess"),
    ],
)
def test_job_has_its_cards(
    scheduler: str, devices: list[str], cards: tuple[MergedDevice, ...], expected: dict[int | None, list[str]]
) -> None:
    result = asked(scheduler, {"id": "5", "devices": devices}, cards=cards)
    assert owners(result, cards) == expected
    assert result.unresolved.get(scheduler, 0) == (0 if expected else 1)


def test_an_old_cgroup_names_device_files() -> None:
    jobs = {"id": "5", "nodes": ["195:1", "195:255", "1:3"], "lives": True}
    assert owners(asked("slurm", jobs)) == {0: ["5"]}
    assert owners(asked("slurm", {"id": "5", "nodes": ["226:130", "226:1"]}, cards=AMD), AMD) == {0: ["5"]}


@pytest.mark.parametrize("devices", [["7"], ["MIG-gone"], ["../../etc"], ["99999"]])
def test_names_without_a_card_are_counted(devices: list[str]) -> None:
    assert asked("slurm", {"id": "5", "devices": devices}).unresolved == {"slurm": 1}


def test_ended_job_and_job_of_another_boot_have_no_card() -> None:
    result = asked(
        "slurm", {"id": "5", "devices": ["0"], "ended": 1999.0}, {"id": "6", "devices": ["1"], "lives": False}
    )
    assert owners(result) == {}


def test_two_jobs_on_a_card_share_it() -> None:
    result = asked("slurm", {"id": "5", "devices": ["0"]}, {"id": "6", "devices": ["0"]})
    assert {item.owner.name: item.share for item in result.devices[1].allocations} == {"5": 0.5, "6": 0.5}


def test_next_job_gets_the_exclusive_card_of_a_job_without_epilog() -> None:
    process = Process(0, 42, "python", 1e9)
    cards = (card(0, minor="0"),)
    with_process = (MergedDevice("nvidia", 0, "nvidia-0", "0", "model", facts=(("minor", "0"),), processes=(process,)),)
    tasks = {42: Task(42, 1, keys=("sluid:sB",), owner=Owner("job", "sB", job_id="sB"))}
    jobs = ({"id": "5", "devices": ["0"]}, {"id": "6", "sluid": "sB", "devices": ["0"]})
    assert owners(asked("slurm", *jobs, cards=cards), cards) == {0: ["5", "6"]}
    assert owners(asked("slurm", *jobs, cards=with_process, tasks=tasks), with_process) == {0: ["6"]}


def test_jobs_beyond_the_limit_are_reported() -> None:
    poll = job_files.SLURM.polls[0]
    jobs = [{"id": str(number), "ended": 1999.0} for number in range(4999)] + [{"id": "lives"}]
    report = job_files.SLURM.parse(Capture("slurm", poll.name, poll.request, (Output("slurm", status=0, data=jobs),)))
    assert len(report.claims) == 4096
    assert report.claims[0].owner.name == "lives"
    assert "5000 claims" in report.problems[-1].text
