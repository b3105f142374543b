"""`telemetry top` in a real terminal: numbers, keys, the restored terminal, and errors."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kits.daemon import COMMAND, Daemon, clean_environment, shared_daemon
from kits.fake_tools import ToolFolder
from kits.terminal import terminal
from kits.waiting import until
from kits.web_server import running_server
from telemetry_daemon.cli import build_parser
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.simulate.node import PAST_SECONDS, DemoNode
from telemetry_daemon.times import Clock
from telemetry_daemon.top.polled_node import PolledNode
from telemetry_daemon.web.messages import Response
from telemetry_exporters import human

CARDS = "3xnvidia,1xhygon"
_ALTERNATE, _BACK = b"\x1b[?1049h", b"\x1b[?1049l"
_SETTINGS = re.compile(r"\b[0-9a-f]+(?::[0-9a-f]+){20,}")
KEYS = "\x1bOB \x1bOA \r \t \x1b[Z \x1bOD \x1bOC n s r /x \x7f \x1b \x1b[6~ \x1b[5~ \x1bOH \x1bOF pp ?? < > [ ] m 1 3 4 5 2"
ASCII = {"NO_COLOR": "1", "LANG": "C", "LC_ALL": "C", "LC_CTYPE": "", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

started = shared_daemon(arguments=("--demo", CARDS))


@pytest.fixture
def daemon(started):
    started.until((started.folder / "run" / "local.sock").exists)
    started.until(lambda: started.document()["devices"])
    return started


def top_of(daemon):
    return ("top", "--config", str(daemon.config_path))


def quit_well(shown):
    shown.press("q")
    assert shown.ended() == 0
    assert shown.is_as_it_was


def test_keys_lead_through_the_views(daemon):
    with terminal(*top_of(daemon), rows=50) as shown:
        shown.shows("the daemon of this node", "hygon", "K100_AI", "nvidia  2", "1000 W")
        shown.shows(human.byte_size(daemon.document()["devices"][-1]["readings"]["memory_total_bytes"]))
        first = shown.text
        until(lambda: shown.text != first, "numbers that change by themselves")
        shown.press("\n")
        shown.shows("heat", "throttled by heat", "power cap")
        shown.press("5")
        shown.shows("hy-smi", "readings")
        shown.press("4")
        shown.press("?")
        shown.shows("quit", "Enter")
        shown.press("\x1b")
        shown.press("2")
        shown.shows("MODEL", "K100_AI")
        shown.press("/hygon\n")
        until(lambda: "nvidia  0" not in shown.text, "the cards of one vendor")
        shown.shows("K100_AI")
        for columns, rows in ((40, 10), (250, 60), (60, 12), (100, 30)):
            shown.screen.reset()
            shown.resize(columns, rows)
            shown.shows("hygon", "? ")
        quit_well(shown)


def test_card_view_keeps_all_sensors(daemon):
    """The daemon's stream has only one temperature per card, but the card view shows all."""
    with terminal(*top_of(daemon), rows=70) as shown:
        shown.shows("K100_AI")
        shown.press("/hygon\n")
        for _ in range(3):
            last = shown.text.partition("\n")[0]
            until(lambda last=last: shown.text.partition("\n")[0] != last, "the next second of the stream")
        printed = len(shown.printed)
        shown.press("\n")
        shown.shows("temperature edge", "temperature junction", "temperature core")
        for _ in range(4):
            last = shown.text
            until(lambda last=last: shown.text != last, "new numbers")
        assert b"not reported" not in shown.printed[printed:]


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.long), signal.SIGINT])
def test_signal_restores_the_terminal(daemon, number):
    with terminal(*top_of(daemon)) as shown:
        shown.shows("K100_AI")
        if number == signal.SIGINT:
            shown.press("\x03")
        else:
            shown.process.send_signal(number)
        assert shown.ended() == 128 + number
        assert shown.is_as_it_was


@pytest.mark.parametrize("environment", [ASCII, pytest.param({**ASCII, "LC_ALL": "POSIX"}, marks=pytest.mark.long)])
def test_output_without_colours_and_unicode(daemon, environment):
    with terminal(*top_of(daemon), environment=environment) as shown:
        shown.shows("K100_AI", "ok")
        assert not re.search(rb"\x1b\[[0-9;]*3[0-7]m", shown.printed)
        assert shown.printed.isascii()


@pytest.mark.parametrize(
    "term", ["dumb", *(pytest.param(term, marks=pytest.mark.long) for term in ("no-such-terminal", ""))]
)
def test_unusable_terminal_is_refused(daemon, term):
    with terminal(*top_of(daemon), environment={"TERM": term}, columns=120) as shown:
        assert shown.ended() == 64
        assert "telemetry snapshot" in shown.text
        assert shown.is_as_it_was


def test_missing_terminal_is_refused_with_alternative(daemon):
    done = subprocess.run(
        [*COMMAND, *top_of(daemon)],
        env=clean_environment({}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (64, "", 1)
    assert "telemetry snapshot --watch" in done.stderr


def test_tools_are_polled_without_a_daemon(tmp_path):
    tools = ToolFolder(tmp_path / "tools")
    tools.hangs("ixsmi")
    config = tmp_path / "telemetry.toml"
    config.write_text(
        f'[state]\ndirectory = "{tmp_path}/state"\nruntime_directory = "{tmp_path}/run"\n[web]\nlisten_address = ["127.0.0.1:1"]\n'
    )
    with terminal("top", "--config", str(config), environment={"PATH": tools.search_path}) as shown:
        shown.shows("no daemon on this node", "ixsmi")
        quit_well(shown)


_NAMES_MODULES = """
import atexit, sys
atexit.register(lambda: open(sys.argv[-1], "w").write("\\n".join(sys.modules)))
from telemetry_daemon.cli import main
sys.exit(main(sys.argv[1:-1]))
"""


@pytest.mark.parametrize(
    ("is_simulated", "unused"),
    [(False, {"pydantic", "apscheduler", "asyncio"}), (True, {"pydantic", "asyncio", "importlib.metadata", "h11"})],
)
def test_first_frame_needs_few_imports(daemon, tmp_path, is_simulated, unused):
    """Most CPU time until the first frame goes into imports."""
    arguments = ("top", "--demo", CARDS) if is_simulated else top_of(daemon)
    written = tmp_path / "modules"
    with terminal(*arguments, str(written), command=(sys.executable, "-c", _NAMES_MODULES)) as shown:
        shown.shows("K100_AI", *["Simulated"] * is_simulated)
        quit_well(shown)
    assert unused.intersection(written.read_text().split()) == set()


def test_screen_does_not_wait_for_the_simulated_past():
    played, clock = threading.Event(), Clock()

    class HeldUp(DemoNode):
        def start_filling(self, *arguments):
            played.wait()
            super().start_filling(*arguments)

    node = PolledNode("", "here", HeldUp("2xhygon", clock, past_seconds=PAST_SECONDS), Settings(), clock)
    node.start(lambda: None)
    try:
        assert [state.snapshot.devices for state in node.nodes()] == [()]
        played.set()
        until(lambda: node.nodes()[0].snapshot.devices, "the cards")
    finally:
        played.set()
        node.close()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("user:secret@node1",), "--password-file"),
        *(
            pytest.param(arguments, arguments[1], marks=pytest.mark.long)
            for arguments in (("--nodes", "/nowhere/nodes"), ("--demo", "2xnone"), ("--replay", "/nowhere/recording"))
        ),
    ],
)
def test_invalid_input_is_refused_in_one_line(arguments, why):
    with terminal("top", *arguments, columns=250) as shown:
        assert shown.ended() == 64
        assert why in shown.text
        assert "secret" not in shown.text
        assert "\n" not in shown.text.strip()


def test_password_is_no_argument():
    text = build_parser("top").format_help()
    assert "--password-file" in text
    assert "--password " not in text


def test_hanging_daemon_is_named_and_last_values_stay(daemon):
    with terminal(*top_of(daemon)) as shown:
        shown.shows("K100_AI")
        daemon.signal(signal.SIGSTOP)
        try:
            shown.shows("K100_AI", "no answer")
            shown.press("q")
            assert shown.ended() == 0
        finally:
            daemon.signal(signal.SIGCONT)


def test_restarted_daemon_is_followed_again(tmp_path):
    with Daemon(tmp_path, arguments=("--demo", "1xhygon")) as daemon:
        daemon.until(lambda: daemon.document()["devices"])
        with terminal(*top_of(daemon)) as shown:
            shown.shows("K100_AI")
            daemon.process.kill()
            daemon.process.wait()
            shown.shows("K100_AI", "no daemon answers")
            with Daemon(tmp_path, arguments=("--demo", "2xmetax")):
                shown.shows("metax", "2 × ")


def test_ctrl_z_and_fg_restore_terminal_and_screen(daemon):
    command = " ".join((*COMMAND, *top_of(daemon)))
    shell = ("bash", "--norc", "--noediting", "-i")
    with terminal(command=shell, environment={"PS1": "> "}, columns=160) as shown:
        before = settings(shown)
        shown.press(f"{command}\n")
        shown.shows("K100_AI")
        shown.press("\x1a")
        shown.prints(_BACK)
        assert settings(shown) == before
        shown.press("fg\n")
        shown.prints(_ALTERNATE, times=2)
        shown.shows("K100_AI")
        shown.press("q")
        shown.prints(_BACK, times=2)
        assert settings(shown) == before


def settings(shell):
    """Return the terminal's settings as programs of the shell see them."""
    shell.press("clear; stty -g; echo do''ne\n")
    shell.shows("done")
    return _SETTINGS.search(shell.text)[0]


def test_ctrl_z_works_while_a_frame_is_written(daemon):
    def is_ignored():
        status = Path("/proc", str(shown.process.pid), "status").read_text()
        return int(re.search(r"^SigIgn:\s*(\w+)", status, re.M)[1], 16) >> (signal.SIGTSTP - 1) & 1

    with terminal(*top_of(daemon), columns=250, rows=60) as shown:
        shown.shows("K100_AI")
        for view in "1234" * 4:
            shown.press(view)
            assert not any(is_ignored() for _ in range(100))
            shown.read(0.01)
        quit_well(shown)


@pytest.mark.parametrize(
    ("answering", "hanging"), [(1, 1), pytest.param(206, 49, marks=pytest.mark.long)], ids=["two", "as many as can be"]
)
def test_nodes_are_shown_or_named_as_silent(daemon, answering, hanging):
    document = json.dumps(daemon.document()).encode()
    with running_server(lambda _: Response(200, (document,), "application/json")) as server, _Silent() as port:
        # All addresses of 127.0.0.0/8 are this machine.
        nodes = [f"http://localhost:{server.port}/{number}" for number in range(answering)]
        nodes += [f"127.0.0.{number + 1}:{port}" for number in range(hanging)] + ["127.0.0.1:1"]
        with terminal("top", *nodes[1:], "--node", nodes[0], columns=120, rows=80) as shown:
            shown.shows(f"{len(nodes)} nodes", f"{hanging + 1} of {len(nodes)} nodes do not answer")
            shown.shows("no answer", "127.0.0.1:1", "no daemon answers")
            shown.shows(f"devices up {4 * answering}")
            quit_well(shown)


class _Silent:
    """A port that accepts connections and never answers."""

    def __enter__(self):
        self._listener = socket.create_server(("0.0.0.0", 0), backlog=512)
        self._connections = []
        threading.Thread(target=self._accept_all, daemon=True).start()
        return self._listener.getsockname()[1]

    def _accept_all(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                self._connections.append(self._listener.accept()[0])

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            connection.close()
