"""`telemetry top` as somebody sees it: the right numbers, the right keys, and a terminal that is left as it was."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time

import pytest

from kits.daemon import COMMAND, Daemon, clean_environment
from kits.fake_tools import ToolFolder
from kits.terminal import terminal
from kits.web_server import running_server
from telemetry_daemon.web.messages import Response
from telemetry_exporters import human

CARDS = "3xnvidia,1xhygon"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    folder = tmp_path_factory.mktemp("daemon")
    with Daemon(folder, arguments=("--demo", CARDS)) as running:
        running.until((folder / "run" / "local.sock").exists)
        running.until(lambda: running.document()["devices"])
        yield running


def of(daemon):
    return ("top", "--config", str(daemon.config_path))


def test_the_daemons_cards_are_shown_and_the_terminal_is_left_as_it_was(daemon):
    with terminal(*of(daemon)) as shown:
        shown.shows("the daemon of this node", "hygon", "K100_AI", "nvidia  2", "700 W")
        cap = daemon.document()["devices"][-1]["readings"]["memory_total_bytes"]
        shown.shows(human.byte_size(cap))
        shown.press("q")
        assert shown.ended() == 0
        assert shown.is_as_it_was


def test_numbers_change_by_themselves(daemon):
    with terminal(*of(daemon)) as shown:
        shown.shows("K100_AI")
        first = shown.text
        shown.shows("K100_AI", patience_seconds=1)
        until = time.monotonic() + 20
        while shown.text == first:
            assert time.monotonic() < until, "nothing changed"


def test_keys_lead_through_the_views(daemon):
    with terminal(*of(daemon), rows=50) as shown:
        shown.shows("K100_AI")
        shown.press("\n")
        shown.shows("readings", "identity", "memory total")
        shown.press("5")
        shown.shows("hy-smi", "readings")
        shown.press("4")
        shown.press("?")
        shown.shows("quit", "Enter")
        shown.press("\x1b")
        shown.press("2")
        shown.shows("MODEL", "K100_AI")
        shown.press("/hygon\n")
        shown.shows("K100_AI")
        until = time.monotonic() + 20
        while "H100" in shown.text.split("\n", 3)[3]:
            assert time.monotonic() < until, shown.text


def test_a_card_that_is_looked_at_keeps_all_its_sensors(daemon):
    """The daemon's stream tells one temperature of a card; the others were said to be not reported, twice a second."""
    with terminal(*of(daemon), rows=70) as shown:
        shown.shows("K100_AI")
        shown.press("\n")
        shown.shows("temperature edge", "temperature junction", "temperature core")
        shown.read(4.0)
        assert b"not reported" not in shown.printed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_the_terminal_as_it_was(daemon, number):
    with terminal(*of(daemon)) as shown:
        shown.shows("K100_AI")
        shown.process.send_signal(number)
        assert shown.ended() == 128 + number
        assert shown.is_as_it_was


def test_the_keyboards_interrupt_ends_it(daemon):
    with terminal(*of(daemon)) as shown:
        shown.shows("K100_AI")
        shown.press("\x03")
        assert shown.ended() == 130
        assert shown.is_as_it_was


def test_it_can_be_stopped_and_goes_on(daemon):
    with terminal(*of(daemon)) as shown:
        shown.shows("K100_AI")
        shown.process.send_signal(signal.SIGTSTP)
        shown.prints(b"\x1b[?1049l")
        shown.process.send_signal(signal.SIGCONT)
        shown.prints(b"\x1b[?1049h", times=2)
        shown.shows("K100_AI")
        shown.press("q")
        assert shown.ended() == 0
        assert shown.is_as_it_was


def test_another_size_is_used_at_once(daemon):
    with terminal(*of(daemon)) as shown:
        shown.shows("K100_AI")
        for columns, rows in ((40, 10), (250, 60), (60, 12), (100, 30)):
            shown.screen.reset()
            shown.resize(columns, rows)
            shown.shows("hygon", "? ")
        shown.press("q")
        assert shown.ended() == 0


def test_without_colours_and_without_unicode(daemon):
    plain = {"NO_COLOR": "1", "LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with terminal(*of(daemon), environment=plain) as shown:
        shown.shows("K100_AI", "ok")
        assert not re.search(rb"\x1b\[[0-9;]*3[0-7]m", shown.printed)
        assert shown.printed.isascii()


@pytest.mark.parametrize("term", ["dumb", "no-such-terminal", ""])
def test_a_terminal_that_cannot_show_it_is_told_so(daemon, term):
    with terminal(*of(daemon), environment={"TERM": term}) as shown:
        assert shown.ended() == 64
        assert "telemetry snapshot" in shown.text
        assert shown.is_as_it_was


def test_without_a_terminal_it_says_what_to_use_instead(daemon):
    done = subprocess.run(
        [*COMMAND, *of(daemon)],
        env=clean_environment({}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (64, "", 1)
    assert "telemetry snapshot --watch" in done.stderr


def test_a_daemon_that_is_gone_is_named_and_its_last_values_stay(tmp_path):
    with Daemon(tmp_path, arguments=("--demo", CARDS)) as daemon:
        daemon.until((tmp_path / "run" / "local.sock").exists)
        daemon.until(lambda: daemon.document()["devices"])
        with terminal(*of(daemon)) as shown:
            shown.shows("K100_AI")
            daemon.signal(signal.SIGKILL)
            shown.shows("K100_AI", "no daemon answers", patience_seconds=30)


def test_where_no_daemon_runs_it_polls_by_itself_and_says_so(tmp_path):
    tools = ToolFolder(tmp_path / "tools")
    tools.hangs("ixsmi")
    config = tmp_path / "telemetry.toml"
    config.write_text(
        f'[state]\ndirectory = "{tmp_path}/state"\nruntime_directory = "{tmp_path}/run"\n[web]\nlisten_address = ["127.0.0.1:1"]\n'
    )
    with terminal("top", "--config", str(config), environment={"PATH": tools.search_path}) as shown:
        shown.shows("no daemon here", "ixsmi")
        shown.press("q")
        assert shown.ended() == 0
        assert shown.is_as_it_was


def test_a_simulation_and_a_recording_are_shown_as_such(tmp_path):
    with terminal("top", "--demo", CARDS) as shown:
        shown.shows("Simulated", "K100_AI")


def test_many_nodes_the_worst_first_and_the_dead_with_their_reason(daemon):
    document = json.dumps(daemon.document()).encode()
    with running_server(lambda request: Response(200, (document,) if "snapshot" in request.path else (b"",))) as server:
        nodes = (daemon.address, f"127.0.0.1:{server.port}", "127.0.0.1:1")
        with terminal("top", *nodes, columns=120) as shown:
            shown.shows(*nodes, "no daemon answers")
            shown.press("q")
            assert shown.ended() == 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--demo", "2xnvidia", "node1"), "--demo"),
        (("user:secret@node1",), "--password-file"),
        (("--nodes", "/nowhere/nodes"), "/nowhere/nodes"),
        (("--demo", "2xnobody"), "nobody"),
        (("--replay", "/nowhere/recording"), "/nowhere/recording"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_line(tmp_path, arguments, why):
    with terminal("top", *arguments) as shown:
        assert shown.ended() == 64
        assert why in shown.text
        assert "secret" not in shown.text
        assert len(shown.text.strip().split("\n")) <= 2


def test_a_password_is_no_argument():
    done = subprocess.run(
        [*COMMAND, "top", "--help"], env=clean_environment({}), capture_output=True, text=True, check=True
    )
    assert "--password-file" in done.stdout
    assert "--password " not in done.stdout
