"""A recording in the terminal: pausing, seeking, speed, and the shown position."""

from pathlib import Path

import pytest

from kits.daemon import Daemon, run
from kits.fake_nvml.library import FakeNvml
from kits.terminal import terminal

pytestmark = [pytest.mark.installed, pytest.mark.needs("cc")]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record six seconds of a node with eight cards."""
    folder = tmp_path_factory.mktemp("recording")
    fake = FakeNvml(folder / "nvml", "h100")
    path = folder / "node.jsonl.gz"
    assert run("record", "--from", "tools", "-o", str(path), "--for", "6", environment=fake.environment)[0] == 0
    return path


def test_replay_is_controlled_with_keys(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(recording.parent)  # the first line has room for a short name
    with terminal("top", "--replay", recording.name, "--once", "--speed", "0.5", columns=120) as shown:
        shown.shows("node.jsonl.gz", "8 × NVIDIA H100", "Replay: this is a recording of", "0.5 ×")
        shown.press(" ")
        shown.shows("0.5 ×, paused")
        shown.press("+")
        shown.shows("UTC, paused")
        shown.press("}")
        shown.shows("ended")
        shown.press("{")
        shown.shows("8 × NVIDIA H100", "paused")
        shown.press("/,.-")  # while a filter is typed they are only characters
        shown.shows("filter: ,.-")
        shown.press("\x7f\x7f\x7f\r")
        shown.press("p")
        shown.shows("ended")
        shown.press("?")
        shown.shows("recording: go back or forward by 10 seconds")
        shown.press("q")
        assert shown.ended() == 0


def test_replaying_daemon_is_shown_and_screen_pauses(tmp_path: Path, recording: Path) -> None:
    with Daemon(tmp_path, arguments=("--replay", str(recording), "--once")) as daemon:
        daemon.until(lambda: daemon.document()["replay"]["how"] == "ended")
        assert daemon.document()["replay"]["shown"] > daemon.document()["replay"]["recorded"]
        with terminal("top", "--config", str(daemon.config_path), columns=160) as shown:
            shown.shows("8 × NVIDIA H100", "Shown: ", "ended")
            shown.press("p")
            shown.shows("Paused: the display does not change")
            shown.press("q")
            assert shown.ended() == 0


def test_damaged_recording_is_reported_beside_the_screen(tmp_path: Path, recording: Path) -> None:
    path = tmp_path / "node.jsonl.gz"
    path.write_bytes(recording.read_bytes()[:-40])
    with terminal("top", "--replay", str(path), columns=200, rows=60) as shown:
        shown.shows("8 × NVIDIA H100")
        assert b"the recording " in shown.printed.partition(b"\x1b[?1049h")[0]
        path.unlink()
        shown.press(",")
        shown.shows("playback cannot continue")
        assert "level=" not in shown.text
        shown.press("q")
        assert shown.ended() == 0
        after = shown.printed.rpartition(b"\x1b[?1049l")[2].decode()
    assert "the recording can no longer be played" in after
    assert f"{path}: No such file or directory" in after


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("top", "--at", "5s"), "--at is only for recordings: add --replay FILE"),
        (("top", "--once"), "--once is only for recordings"),
        (("serve", "--speed", "3"), "--speed is only for recordings"),
        (("serve", "--speed", "1000", "--replay", "x"), "'1000' is not a valid speed; give a number from 0.1 to 100"),
        (("top", "--at", "soon", "--replay", "x"), "'soon' is not a time in a recording; write 90s"),
    ],
)
def test_conflicting_options_are_refused(arguments: tuple[str, ...], says: str) -> None:
    status, _, words = run(*arguments)
    assert (status, says in words) == (64, True), words
