"""What each tool is asked, how often, and what its polls must never ask."""

from __future__ import annotations

import pytest

from kits.captures import registered_parsers
from telemetry_parsers.model import Command, Poll

PARSERS = registered_parsers()


def polls_of(source: str) -> dict[str, Poll]:
    return {poll.name: poll for poll in PARSERS[source].polls}


def lines_of(poll: Poll) -> tuple[tuple[str, ...], ...]:
    assert isinstance(poll.request, Command)
    return poll.request.alternatives


@pytest.mark.parametrize("source", ["amd-smi", "rocm-smi"])
def test_a_run_may_be_killed_without_harm_to_other_users_of_the_library(source: str) -> None:
    for poll in polls_of(source).values():
        assert isinstance(poll.request, Command)
        assert ("RSMI_MUTEX_THREAD_ONLY", "1") in poll.request.env
        assert poll.request.on_deadline == "kill"
        assert poll.wakes


def test_amd_smi_is_asked_for_json() -> None:
    polls = polls_of("amd-smi")
    tiers = {"metric": "fast", "list": "inventory", "static": "inventory", "process": "slow"}
    assert {name: poll.tier for name, poll in polls.items()} == tiers
    for name, poll in polls.items():
        assert lines_of(poll)[0] == ("amd-smi", name, "--json")
        assert all(line[-1] == "--json" for line in lines_of(poll))


def test_no_poll_of_rocm_smi_measures_for_long_changes_anything_or_lists_what_overwrites_itself() -> None:
    asked = {word for poll in polls_of("rocm-smi").values() for line in lines_of(poll) for word in line[1:]}
    assert not asked & {"-b", "--showbw", "-s", "--showclkfrq", "-e", "--showevents", "--showtempgraph"}
    assert all(word.startswith(("--show", "--json", "--version", "-a", "vram", "gtt")) for word in asked)


def test_a_rocm_smi_that_lacks_a_flag_is_asked_for_less_and_at_last_for_the_table() -> None:
    lines = lines_of(polls_of("rocm-smi")["readings"])
    asked = [set(line) - {"--json"} for line in lines[:3]]
    assert asked[0] > asked[1] > asked[2] > {"rocm-smi"}
    assert lines[-2:] == (("rocm-smi", "-a", "--json"), ("rocm-smi",))


@pytest.mark.parametrize(
    ("source", "listing"), [("rocm-smi", ["readings"]), ("npu-smi", ["readings"]), ("hccn-tool", [])]
)
def test_only_these_polls_list_devices(source: str, listing: list[str]) -> None:
    assert [name for name, poll in polls_of(source).items() if poll.lists_devices] == listing


def test_rocminfo_is_asked_rarely() -> None:
    ((name, poll),) = polls_of("rocminfo").items()
    assert (name, lines_of(poll)) == ("agents", (("rocminfo",),))
    assert (poll.tier, poll.interval, poll.wakes) == ("inventory", 300.0, True)


def test_mthreads_gmi_is_asked_for_the_query_first_and_the_table_for_its_processes() -> None:
    readings, processes = PARSERS["mthreads-gmi"].polls
    assert lines_of(readings) == (("mthreads-gmi", "-q", "--json"), ("mthreads-gmi", "-q"), ("mthreads-gmi",))
    assert (readings.name, readings.tier, readings.interval, readings.deadline) == ("readings", "fast", 15.0, 10.0)
    assert lines_of(processes) == (("mthreads-gmi",),)
    assert (processes.tier, processes.interval, processes.lists_devices) == ("slow", 60.0, False)


def test_npu_smi_is_asked_for_the_table_and_the_rest_card_by_card() -> None:
    polls = polls_of("npu-smi")
    assert lines_of(polls["readings"]) == (("npu-smi", "info"),)
    per_card = [
        name for name, poll in polls.items() if isinstance(poll.request, Command) and poll.request.per == "card"
    ]
    assert " ".join(per_card) == "usages common memory temperatures voltage board card ecc health pcie-errors"
    assert all(polls[name].tier != "fast" for name in per_card)


def test_hccn_tool_is_asked_of_each_chip_that_others_list_and_measures_nothing() -> None:
    polls = polls_of("hccn-tool").values()
    lines = [line for poll in polls for line in lines_of(poll)]
    assert all(isinstance(poll.request, Command) and poll.request.per == "device" for poll in polls)
    assert all("{device}" in line and "-g" in line for line in lines)
    assert not {"-bandwidth", "-ping", "-optical", "-s"} & {word for line in lines for word in line}
