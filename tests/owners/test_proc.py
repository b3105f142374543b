"""Processes on cards, from /proc: tasks, and their memory on a card according to their open files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_parsers.checks.report_rules import report_violations
from telemetry_parsers.model import Capture, Failure, Output, Plain
from telemetry_parsers.owners.proc import PARSER, DriverClient, memory_by_card, parse_clients
from telemetry_parsers.ownership import Owner, ProcessUsage, Task

POLL = PARSER.polls[0]
ALICE = {"pid": 70, "ticks": 123, "started": 1.7e9, "user": "alice", "command": "python", "cgroup": "0::/"}


def parsed(*data: Plain):
    outputs = (Output("/proc"), *(Output(str(position), status=0, data=value) for position, value in enumerate(data)))
    return PARSER.parse(Capture("proc", POLL.name, POLL.request, outputs))


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, Task(70, 123, 1.7e9, "alice", "python", "", Owner("user", "alice", user="alice"))),
        (
            {"cgroup": "0::/user.slice/user-1000.slice/session-3.scope"},
            Task(70, 123, 1.7e9, "alice", "python", "", Owner("user", "alice", user="alice")),
        ),
        (
            {"cgroup": "0::/system.slice/x.service"},
            Task(70, 123, 1.7e9, "alice", "python", "", Owner("service", "x.service")),
        ),
        (
            {"cgroup": "0::/user.slice", "environment": {"SLURM_JOB_ID": "41", "RANK": "3", "SLURM_PROCID": "9"}},
            Task(70, 123, 1.7e9, "alice", "python", "", Owner("job", "41", job_id="41"), ("slurm:41",), 3),
        ),
        (
            {
                "cgroup": "0::/system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_0/user/task_0",
                "environment": {"SLURM_JOB_ID": "41", "SLURM_JOB_SLUID": "sEKNKTV3WPV500"},
            },
            Task(
                70, 123, 1.7e9, "alice", "python", "", Owner("job", "sEKNKTV3WPV500", job_id="sEKNKTV3WPV500"),
                ("sluid:sEKNKTV3WPV500", "slurm:41"),
            ),
        ),
        (
            {"environment": {"RANK": "-1", "SLURM_PROCID": "x", "SLURM_JOB_ID": ""}},
            Task(70, 123, 1.7e9, "alice", "python", "", Owner("user", "alice", user="alice")),
        ),
        (
            {"holds": [{"bus_id": "0000:03:00.0", "memory_bytes": 5, "busy_seconds": None}, {"memory_bytes": 1}, 7]},
            Task(
                70, 123, 1.7e9, "alice", "python", "", Owner("user", "alice", user="alice"),
                holds=(ProcessUsage("0000:03:00.0", 5.0),),
            ),
        ),
    ],
)  # fmt: skip
def test_process_becomes_a_task(more, expected):
    assert parsed({**ALICE, **more}).tasks == (expected,)


def test_unexpected_process_leaves_the_others() -> None:
    for wrong in [None, [], "x", {}, {"pid": "1", "ticks": 2}, {"pid": 0, "ticks": 2}, {"pid": True, "ticks": 1}]:
        report = parsed(wrong, ALICE)
        assert [task.pid for task in report.tasks] == [70]
        assert [problem.where for problem in report.problems] == ["0"]


def test_without_processes_there_are_no_tasks_and_without_a_list_there_is_no_report():
    assert (parsed().outcome, parsed().tasks) == ("ok", ())
    assert PARSER.parse(Capture("proc", POLL.name, POLL.request)).outcome == "failed"


def test_a_failed_read_is_a_failed_report():
    failure = Failure("not_supported", None, "elsewhere")
    assert PARSER.parse(Capture("proc", POLL.name, POLL.request, failure=failure)).outcome == "failed"


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["pid", "ticks", "started", "user", "command", "cgroup", "environment", "holds", "bus_id"]),
            inner,
        )
    ),
    max_leaves=8,
)


@given(st.lists(PLAIN, max_size=4))
def test_any_data_gives_a_valid_report(data):
    outputs = (Output("/proc"), *(Output(str(position), status=0, data=value) for position, value in enumerate(data)))
    capture = Capture("proc", POLL.name, POLL.request, outputs)
    report = PARSER.parse(capture)
    assert not report_violations(PARSER, capture, report)
    assert len(report.tasks) + len(report.problems) <= max(len(data), 1)


BEGIN = "pos:\t0\nflags:\t02100002\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t7\n"


def test_memory_on_the_card_is_what_is_resident() -> None:
    for rest, expected in [
        ("drm-memory-vram:\t4 KiB\ndrm-memory-gtt:\t9 KiB\n", 4096),
        ("drm-memory-vram:\t9 KiB\ndrm-resident-vram:\t4 KiB\ndrm-total-vram:\t99 KiB\n", 4096),
        ("drm-resident-local0:\t1 MiB\ndrm-resident-local1:\t1 MiB\ndrm-resident-system0:\t5 MiB\n", 2 << 20),
        ("drm-resident-vram0:\t12\n", 12),
        ("drm-resident-vram0:\t0\n", 0),
        ("drm-resident-gtt:\t12 KiB\n", None),
        ("drm-resident-vram:\t-1 KiB\n", None),
        ("drm-resident-vram:\t1 parsec\n", None),
        ("drm-resident-vram:\t99999999999999999999 GiB\n", None),
    ]:
        assert list(parse_clients([BEGIN + rest])) == [DriverClient("0000:03:00.0", "7", expected)]


@pytest.mark.parametrize("text", ["", "pos: 0\n", "drm-pdev: x\ndrm-client-id: 7\n", "drm-pdev: 0000:03:00.0\n"])
def test_text_of_another_file_is_no_client(text):
    assert list(parse_clients([text])) == []


def test_the_clients_of_a_card_add_up():
    found = [
        DriverClient("0000:03:00.0", "1", 5),
        DriverClient("0000:03:00.0", "2", 6),
        DriverClient("0000:04:00.0", "1", None),
    ]
    assert memory_by_card(found) == [{"bus_id": "0000:03:00.0", "memory_bytes": 11}]


KEYS = st.sampled_from(
    ("drm-resident-vram", "drm-memory-vram", "drm-resident-local0", "drm-pdev", "drm-engine-gfx", "flags")
)
LINES = st.builds(
    "{}:\t{} {}\n".format, KEYS, st.integers(-1, 10**30), st.sampled_from(("", "KiB", "MiB", "GiB", "ns"))
)


@given(st.lists(st.text() | st.lists(LINES, max_size=5).map("".join), max_size=5))
def test_any_texts_give_clients_of_cards_only(texts):
    for client in parse_clients(BEGIN + text for text in texts):
        assert client.memory_bytes is None or 0 <= client.memory_bytes < 3 << 60
