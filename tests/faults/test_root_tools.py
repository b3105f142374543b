"""A user who can change a tool could make root run anything: root runs only tools that root alone can change."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kits.command_line import run_main
from kits.command_reader import NO_TARGETS, poll, tool
from kits.fake_tools import ToolFolder
from kits.tool_node import TOOL, TOOL_CONFIG, tool_text
from telemetry_daemon.readers.tool_reader import CommandReader
from telemetry_parsers.model import Capture

OTHER_USER = 65534


class Place:
    """A tool three folders deep, with a folder of links beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vendor = folder / "vendor"
        self.bin = self.vendor / "bin"
        self.links = folder / "links"
        for each in (self.bin, self.links):
            each.mkdir(parents=True)
            each.chmod(0o755)
        self.vendor.chmod(0o755)
        self.tool = ToolFolder(self.bin).prints("smi", "GPU 0\n")

    def read(self, search_path: Path | str, path: str = "") -> Capture:
        environment = {"PATH": f"{search_path}:{os.defpath}"}
        reader = CommandReader("fake", self.folder / "locks", path, environment=environment)
        try:
            return reader.read(poll(tool("smi")), NO_TARGETS)
        finally:
            reader.close()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "place")


def linked(place: Place, target: Path | str) -> Path:
    (place.links / "smi").symlink_to(target)
    return place.links


def through_two_links(place: Place) -> Path:
    (place.folder / "current").symlink_to("vendor")
    return linked(place, "../current/bin/smi")


GOOD: dict[str, Callable[[Place], Path]] = {
    "folders of root's": lambda place: place.bin,
    "a link of root's": lambda place: linked(place, place.tool),
    "links over links, with two dots": through_two_links,
    "a sticky folder above, as /tmp is": lambda place: (place.folder.chmod(0o1777), place.bin)[1],
    "writable by the group of root": lambda place: (place.bin.chmod(0o775), place.bin)[1],
}


@pytest.mark.parametrize("prepare", GOOD.values(), ids=list(GOOD))
def test_what_root_alone_can_change_is_run(place: Place, prepare: Callable[[Place], Path]) -> None:
    capture = place.read(prepare(place))
    assert capture.failure is None
    assert capture.outputs[0].text == "GPU 0\n"


def given_away(path: Path) -> Path:
    os.chown(path, OTHER_USER, -1, follow_symlinks=False)
    return path


# What is done to the place, and which folder is searched; the path that is blamed comes last.
BAD: dict[str, Callable[[Place], tuple[Path, Path]]] = {
    "the tool belongs to another": lambda place: (place.bin, given_away(place.tool)),
    "its folder does": lambda place: (place.bin, given_away(place.bin)),
    "a folder further up does": lambda place: (place.bin, given_away(place.vendor)),
    "all can write to the tool": lambda place: (place.tool.chmod(0o777), (place.bin, place.tool))[1],
    "all can write to its folder": lambda place: (place.bin.chmod(0o777), (place.bin, place.bin))[1],
    "its folder is sticky": lambda place: (place.bin.chmod(0o1777), (place.bin, place.bin))[1],
    "all can write further up": lambda place: (place.vendor.chmod(0o757), (place.bin, place.vendor))[1],
    "a group can write": lambda place: (
        os.chown(place.bin, -1, OTHER_USER),
        place.bin.chmod(0o775),
        (place.bin, place.bin),
    )[2],
    "a link of another's": lambda place: (linked(place, place.tool), given_away(place.links / "smi")),
    "all can move the link": lambda place: (
        linked(place, place.tool),
        place.links.chmod(0o777),
        (place.links, place.links),
    )[2],
    "a link leads to another's": lambda place: (linked(place, place.tool), given_away(place.bin)),
}


@pytest.mark.needs("root")
@pytest.mark.parametrize("prepare", BAD.values(), ids=list(BAD))
def test_what_others_can_change_is_not_run_as_root(place: Place, prepare: Callable[[Place], tuple[Path, Path]]) -> None:
    searched, blamed = prepare(place)
    for capture in (place.read(searched), place.read("", path=str(searched / "smi"))):
        assert capture.failure is not None
        assert (capture.failure.state, capture.failure.reason) == ("failed", "no_permission")
        assert capture.failure.text.startswith(f"{searched}/smi is not run as root: {blamed} ")
        assert capture.failure.text.endswith((f"chown root {blamed}", f"chmod go-w {blamed}"))
        assert capture.outputs == ()
    assert ToolFolder(place.bin).calls("smi") == []


@pytest.mark.needs("root")
def test_a_good_tool_further_on_is_run_in_its_place(place: Place, tmp_path: Path) -> None:
    bad = ToolFolder(tmp_path / "bad")
    bad.prints("smi", "GPU 7\n")
    bad.folder.chmod(0o777)
    capture = place.read(f"{bad.folder}:{place.bin}")
    assert [output.text for output in capture.outputs] == ["GPU 0\n"]
    assert bad.calls("smi") == []


@pytest.mark.needs("root")
def test_snapshot_and_doctor_say_so(tmp_path: Path) -> None:
    tools = ToolFolder(tmp_path / "tools")
    tools.prints(TOOL, tool_text())
    tools.folder.chmod(0o777)
    config = tmp_path / "telemetry.toml"
    state = f'[state]\ndirectory = "{tmp_path}/state"\nruntime_directory = "{tmp_path}/run"\n'
    config.write_text(state + TOOL_CONFIG)
    arguments = ("--source", TOOL, "--config", str(config))
    status, out, _ = run_main("doctor", *arguments, environment={"PATH": tools.search_path})
    said = " ".join(out.split())
    assert status == 2
    assert f"{TOOL}: failed (no_permission)" in said
    assert f"at {tools.folder}/{TOOL}, which telemetry refuses to run as root" in said
    assert f"chmod go-w {tools.folder}" in said
    status, out, _ = run_main("snapshot", *arguments, environment={"PATH": tools.search_path})
    assert (status, "is not run as root" in " ".join(out.split())) == (2, True), out
    assert tools.calls(TOOL) == []
