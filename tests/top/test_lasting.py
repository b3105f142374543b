"""`telemetry top` while things go wrong around it: daemons that hang and come back, shells that stop it, sizes, many nodes."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import threading
from pathlib import Path

import pytest

from kits.daemon import COMMAND, Daemon
from kits.terminal import terminal
from kits.web_server import running_server
from telemetry_daemon.web.messages import Response

_ALTERNATE, _BACK = b"\x1b[?1049h", b"\x1b[?1049l"
_SETTINGS = re.compile(r"\b[0-9a-f]+(?::[0-9a-f]+){20,}")
KEYS = "\x1bOB \x1bOA \r \t \x1b[Z \x1bOD \x1bOC n s r /x \x7f \x1b \x1b[6~ \x1b[5~ \x1bOH \x1bOF pp ?? < > [ ] m 1 3 4 5 2"


@pytest.fixture
def daemon(tmp_path):
    with Daemon(tmp_path, arguments=("--demo", "3xnvidia,1xhygon")) as running:
        running.until((tmp_path / "run" / "local.sock").exists)
        running.until(lambda: running.document()["devices"])
        yield running


def of(daemon):
    return ("top", "--config", str(daemon.config_path))


def test_a_daemon_that_hangs_is_named_and_its_last_values_stay(daemon):
    with terminal(*of(daemon)) as shown:
        shown.shows("K100_AI")
        daemon.signal(signal.SIGSTOP)
        try:
            shown.shows("K100_AI", "no answer")
            shown.press("q")
            assert shown.ended() == 0
        finally:
            daemon.signal(signal.SIGCONT)


def test_a_daemon_that_comes_back_is_followed_again(tmp_path, daemon):
    with terminal(*of(daemon)) as shown:
        shown.shows("K100_AI")
        daemon.process.kill()
        daemon.process.wait()
        shown.shows("no daemon answers")
        with Daemon(tmp_path, arguments=("--demo", "2xmetax")):
            shown.shows("metax", "2 × ")


def test_every_key_at_every_size_leaves_something_to_see(daemon):
    with terminal(*of(daemon), columns=120, rows=40) as shown:
        shown.shows("K100_AI")
        for columns, rows in ((40, 10), (250, 60), (1, 1), (2, 60), (120, 40)):
            shown.resize(columns, rows)
            for key in KEYS.split(" "):
                shown.press(key)
        shown.press("\x1b2")
        shown.shows("K100_AI", "q quit")
        shown.press("q")
        assert shown.ended() == 0
        assert shown.is_as_it_was


@pytest.mark.parametrize("environment", [{"LANG": "C"}, {"LC_ALL": "C"}, {"LC_ALL": "POSIX"}])
def test_a_locale_without_unicode_gets_ascii(daemon, environment):
    with terminal(*of(daemon), environment={"LANG": "", "LC_ALL": "", "LC_CTYPE": "", **environment}) as shown:
        shown.shows("K100_AI")
        assert shown.printed.isascii()


def test_ctrl_z_gives_the_shell_its_terminal_and_fg_brings_everything_back(daemon):
    command = " ".join((*COMMAND, *of(daemon)))
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


def test_ctrl_z_is_heard_while_a_frame_is_written(daemon):
    def ignored():
        status = Path("/proc", str(shown.process.pid), "status").read_text()
        return int(re.search(r"^SigIgn:\s*(\w+)", status, re.M)[1], 16) >> (signal.SIGTSTP - 1) & 1

    with terminal(*of(daemon), columns=250, rows=60) as shown:
        shown.shows("K100_AI")
        for view in "1234" * 10:
            shown.press(view)
            assert not any(ignored() for _ in range(200))
            shown.read(0.01)
        shown.press("q")
        assert shown.ended() == 0


def settings(shell):
    """The settings of the terminal as the shell's programs find them."""
    shell.press("clear; stty -g; echo do''ne\n")
    shell.shows("done")
    return _SETTINGS.search(shell.text)[0]


@pytest.mark.long  # a hanging node among two is in test_two_nodes; this one repeats it with as many as can be watched
def test_of_256_nodes_those_that_hang_hold_up_nobody(daemon):
    watch(daemon, answering=206, hanging=50)


def test_of_two_nodes_the_one_that_hangs_is_named(daemon):
    watch(daemon, answering=1, hanging=1)


def watch(daemon, answering, hanging):
    """All that answer are shown with their cards, and those that hang are named."""
    document = json.dumps(daemon.document()).encode()
    with running_server(lambda _: Response(200, (document,), "application/json")) as server, _Silent() as port:
        # Each address of 127.0.0.0/8 is this machine.
        nodes = [f"http://localhost:{server.port}/{number}" for number in range(answering)]
        nodes += [f"127.0.0.{number + 1}:{port}" for number in range(hanging)]
        with terminal("top", *nodes, columns=120) as shown:
            shown.shows(f"{answering + hanging} nodes", f"{hanging} of {answering + hanging} nodes do not answer")
            shown.shows("no answer")
            shown.shows(f"devices up {4 * answering}")
            shown.press("q")
            assert shown.ended() == 0
            assert shown.is_as_it_was


class _Silent:
    """A port that takes connections and never says anything."""

    def __enter__(self):
        self._listener = socket.create_server(("0.0.0.0", 0), backlog=512)
        self._taken = []
        threading.Thread(target=self._take, daemon=True).start()
        return self._listener.getsockname()[1]

    def _take(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                self._taken.append(self._listener.accept()[0])

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._taken:
            one.close()
