"""Log lines, and that no state of standard error can stop, break or flood the process."""

import fcntl
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_daemon.terminal.log import MAX_CHANGES_KEPT, MAX_DEFERRED, MAX_VALUE_LENGTH, ChangeLog, deferred, setup

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
logger = logging.getLogger("telemetry_daemon.test")


@pytest.fixture(autouse=True)
def _logging_as_before():
    root, quiet = logging.getLogger(), logging.getLogger("apscheduler")
    before = root.handlers[:], root.level, quiet.level, logging.raiseExceptions
    yield
    root.handlers[:], root.level, quiet.level, logging.raiseExceptions = before


class Pipe:
    """A pipe whose writing end replaces standard error."""

    def __init__(self):
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)

    def lines(self):
        data = b""
        while True:
            try:
                part = os.read(self.reading, 65536)
            except BlockingIOError:  # all that was written is read
                break
            if not part:
                break
            data += part
        assert data == b"" or data.endswith(b"\n")
        return data.decode().split("\n")[:-1]

    def close(self):
        for descriptor in (self.reading, self.writing):
            if descriptor >= 0:
                os.close(descriptor)


@pytest.fixture
def pipe():
    pipe = Pipe()
    yield pipe
    pipe.close()


@pytest.mark.parametrize(
    ("message", "extra", "text"),
    [
        ("poll failed", {"source": "nvml", "seconds": 2.5}, 'msg="poll failed" source=nvml seconds=2.5'),
        ("x", {"detail": "no such tool"}, 'msg="x" detail="no such tool"'),
        ("x", {"detail": ""}, 'msg="x" detail=""'),
        ("x", {"detail": "a=b"}, 'msg="x" detail="a=b"'),
        ("x", {"path": "/dev/nvidia0", "count": 3}, 'msg="x" path=/dev/nvidia0 count=3'),
        ("x", {"ok": True, "reason": None}, 'msg="x" ok=true reason=null'),
        ("x", {"seconds": float("nan")}, 'msg="x" seconds=nan'),
        ("x", {"path": Path("/etc/a b")}, 'msg="x" path="/etc/a b"'),
        ('say "hi"', {}, r'msg="say \"hi\""'),
        ("two\nlines\r\n", {}, r'msg="two\nlines\r\n"'),
        ("\x1b[31mred\x07\x7f\x9b\u2028\u202e", {}, r'msg="\u001b[31mred\u0007\u007f\u009b\u2028\u202e"'),
        ("\udcff and \U000e0001", {}, r'msg="\udcff and \udb40\udc01"'),
        ("Grüße 中", {"device": "GPU 中"}, 'msg="Grüße 中" device="GPU 中"'),
        ("x", {"level": "mine", "time": "later"}, 'msg="x" level_=mine time_=later'),
    ],
)
def test_a_line_of_text(pipe, message, extra, text):
    logging.getLogger().handlers.clear()  # pytest-xdist cannot send a report in which pytest has noted a surrogate
    setup("info", "text", pipe.writing)
    logger.warning(message, extra=extra)
    (line,) = pipe.lines()
    assert re.fullmatch(TIME, line.split(" ", 1)[0])
    assert line.split(" ", 1)[1] == f"level=warning {text}"


def test_a_line_of_json(pipe):
    setup("info", "json", pipe.writing)
    logger.error("two\nlines of %s", "text", extra={"source": "nvml", "seconds": 0.5, "level": "mine", "cause": None})
    (line,) = pipe.lines()
    facts = json.loads(line)
    assert re.fullmatch(TIME, facts.pop("time"))
    assert facts == {
        "level": "error",
        "msg": "two\nlines of text",
        "logger": "telemetry_daemon.test",
        "source": "nvml",
        "seconds": 0.5,
        "level_": "mine",
        "cause": None,
    }


@given(
    message=st.text(),
    value=st.text() | st.floats() | st.integers() | st.none(),
    format=st.sampled_from(["text", "json"]),
)
def test_any_message_is_one_line_of_printable_text(message, value, format):
    pipe = Pipe()
    try:
        setup("info", format, pipe.writing)
        logger.warning("%s", message, extra={"value": value})
        (line,) = pipe.lines()
    finally:
        pipe.close()
    assert line.isprintable()
    if format == "json":
        assert json.loads(line)["msg"] == message


@pytest.mark.parametrize(
    ("level", "levels"),
    [
        ("debug", ["debug", "info", "warning", "error", "error"]),
        ("info", ["info", "warning", "error", "error"]),
        ("warning", ["warning", "error", "error"]),
        ("error", ["error", "error"]),
    ],
)
def test_a_level_keeps_the_lower_ones_out(pipe, level, levels):
    setup(level, "json", pipe.writing)
    for number in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
        logger.log(number, "x")
    assert [json.loads(line)["level"] for line in pipe.lines()] == levels


def test_second_setup_replaces_only_its_own_handler(pipe):
    other = logging.NullHandler()
    logging.getLogger().addHandler(other)
    setup("error", "json", pipe.writing)
    setup("info", "text", pipe.writing)
    logger.info("once")
    (line,) = pipe.lines()
    assert 'level=info msg="once"' in line
    assert other in logging.getLogger().handlers


def test_apscheduler_logs_errors_only(pipe):
    setup("debug", "text", pipe.writing)
    for number in (logging.DEBUG, logging.INFO, logging.WARNING):
        logging.getLogger("apscheduler.scheduler").log(number, "skipped a run")
    assert pipe.lines() == []
    logging.getLogger("apscheduler.executors.default").error("broken")
    assert len(pipe.lines()) == 1


@pytest.mark.parametrize("format", ["text", "json"])
def test_an_exception_is_one_line_with_its_traceback(pipe, format):
    setup("info", format, pipe.writing)
    try:
        raise RuntimeError("the driver\nis gone")
    except RuntimeError:
        logger.exception("poll failed")
    (line,) = pipe.lines()
    assert r"Traceback (most recent call last):\n" in line
    assert r"RuntimeError: the driver\nis gone" in line


@pytest.mark.parametrize("format", ["text", "json"])
def test_a_text_without_end_is_cut_in_its_middle(pipe, format):
    setup("info", format, pipe.writing)
    logger.warning("begin%send", "\x00" * 1_000_000, extra={"detail": "x" * 1_000_000})
    (line,) = pipe.lines()
    assert len(line) < 10 * MAX_VALUE_LENGTH
    assert "begin" in line
    assert "end" in line


class Broken:
    def __str__(self):
        raise RuntimeError("no text of me")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("message", "arguments", "extra", "expected"),
    [
        ("%d devices", ("many",), {}, "a message could not be formatted: TypeError: %d devices"),
        ("%s and %s", ("one",), {}, "a message could not be formatted: TypeError: %s and %s"),
        ("x", (), {"device": Broken()}, "a message could not be formatted: RuntimeError: x"),
        (Broken(), (), {}, "a message could not be formatted: RuntimeError: Broken"),
    ],
)
def test_message_that_cannot_be_formatted_is_logged_as_such(pipe, message, arguments, extra, expected):
    setup("info", "json", pipe.writing)
    logger.info(message, *arguments, extra=extra)
    (line,) = pipe.lines()
    assert json.loads(line)["msg"] == expected


def test_full_standard_error_drops_and_counts_lines_without_blocking(pipe):
    fcntl.fcntl(pipe.writing, fcntl.F_SETPIPE_SZ, 8192)
    setup("info", "json", pipe.writing)
    for number in range(2000):
        logger.info("line", extra={"number": number})
    kept = [json.loads(line)["number"] for line in pipe.lines()]
    assert kept == list(range(len(kept)))
    assert 0 < len(kept) < 2000
    logger.info("after")
    notice, after = map(json.loads, pipe.lines())
    assert (notice["msg"], notice["lines"]) == ("log lines were lost", 2000 - len(kept))
    assert after["msg"] == "after"


def test_a_line_that_found_room_only_in_part_does_not_swallow_the_next_one(pipe):
    fcntl.fcntl(pipe.writing, fcntl.F_SETPIPE_SZ, 8192)
    setup("info", "text", pipe.writing)
    logger.info("long", extra={"a": "a" * 4000, "b": "b" * 4000, "c": "c" * 4000})
    assert os.read(pipe.reading, 65536).endswith(b"c"), "the whole line found room"
    logger.info("next")
    torn, notice, after = pipe.lines()
    assert torn == ""
    assert "log lines were lost" in notice
    assert after.endswith('msg="next"')


@pytest.mark.parametrize("end", ["reading", "writing"])
def test_closed_pipe_is_ignored(pipe, end):
    setup("info", "text", pipe.writing)
    os.close(getattr(pipe, end))
    setattr(pipe, end, -1)
    for _ in range(10):
        logger.error("is anybody there?")


def in_a_process(code, **arguments):
    program = (
        "import logging, os, sys\nfrom telemetry_daemon.terminal.log import setup\nlogger = logging.getLogger('a')\n"
        + code
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **arguments.pop("environment", {})}
    return subprocess.run([sys.executable, "-c", program], env=environment, **arguments)


def test_standard_error_is_where_lines_go():
    result = in_a_process("setup('info', 'text')\nlogger.info('hello')", capture_output=True, text=True)
    assert result.returncode == 0
    assert result.stdout == ""
    assert re.fullmatch(TIME + ' level=info msg="hello"\n', result.stderr)


def test_a_process_without_standard_error_writes_into_none_of_its_files(tmp_path):
    """The process was started with descriptor 2 closed, and has since opened a file with this number."""
    code = (
        "os.dup2(os.open(os.environ['OWN_FILE'], os.O_WRONLY | os.O_CREAT), 2)\n"
        "setup('info', 'text')\nlogger.error('lost')\nos.write(2, b'own data')"
    )
    own_file = tmp_path / "own"
    result = in_a_process(code, environment={"OWN_FILE": str(own_file)}, preexec_fn=lambda: os.close(2))
    assert result.returncode == 0
    assert own_file.read_text() == "own data"


@pytest.mark.parametrize(
    ("level", "prefix"), [("debug", "<7>"), ("info", "<6>"), ("warning", "<4>"), ("error", "<3>"), ("critical", "<3>")]
)
def test_under_journald_lines_have_a_priority_and_no_time(pipe, monkeypatch, level, prefix):
    found = os.fstat(pipe.writing)
    name = "error" if level == "critical" else level
    for stream, form, line in (
        (f"{found.st_dev}:{found.st_ino}", "text", f'{prefix}level={name} msg="x"'),
        (f"{found.st_dev}:{found.st_ino}", "json", f'{prefix}{{"time": "{TIME}".*'),
        ("1:2", "text", f'{TIME} level={name} msg="x"'),  # standard error was redirected
    ):
        monkeypatch.setenv("JOURNAL_STREAM", stream)
        setup("debug", form, pipe.writing)
        getattr(logger, level)("x")
        (written,) = pipe.lines()
        assert re.fullmatch(line, written)


def test_each_change_is_logged_once():
    log = ChangeLog()
    states = [("nvml", "ok"), ("nvml", "ok"), ("npu-smi", "ok"), ("nvml", "failed"), ("nvml", "failed"), ("nvml", None)]
    assert [log.changed(*state) for state in states] == [True, False, True, True, False, True]


def test_made_up_keys_do_not_fill_the_memory_and_the_latest_are_remembered():
    log = ChangeLog()
    for number in range(3 * MAX_CHANGES_KEPT):
        assert log.changed(number, "failed")
    assert not log.changed(3 * MAX_CHANGES_KEPT - 1, "failed")
    assert not log.changed(2 * MAX_CHANGES_KEPT, "failed")
    assert log.changed(0, "failed")


def test_first_deferred_lines_are_written_afterwards(capfd: pytest.CaptureFixture[str]) -> None:
    with deferred("error"):
        for number in range(MAX_DEFERRED + 3):
            logger.warning("not so bad")
            logger.error("bad", extra={"number": number})
        assert capfd.readouterr().err == ""
    lines = capfd.readouterr().err.splitlines()
    assert [line.partition("msg=")[2] for line in lines] == [
        *(f'"bad" number={number}' for number in range(MAX_DEFERRED)),
        '"log lines were omitted" lines=3',
    ]
