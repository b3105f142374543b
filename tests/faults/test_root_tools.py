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


class Tree:
    """A folder tree with a tool three folders deep, and a folder of links."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vendor = folder / "vendor"
        self.bin = self.vendor / "bin"
        self.links = folder / "links"
        for subfolder in (self.bin, self.links):
            subfolder.mkdir(parents=True)
            subfolder.chmod(0o755)
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
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "place")


def linked(tree: Tree, target: Path | str) -> Path:
    (tree.links / "smi").symlink_to(target)
    return tree.links


def through_two_links(tree: Tree) -> Path:
    (tree.folder / "current").symlink_to("vendor")
    return linked(tree, "../current/bin/smi")


GOOD: dict[str, Callable[[Tree], Path]] = {
    "folders of root's": lambda tree: tree.bin,
    "a link of root's": lambda tree: linked(tree, tree.tool),
    "links over links, with two dots": through_two_links,
    "a sticky folder above, as /tmp is": lambda tree: (tree.folder.chmod(0o1777), tree.bin)[1],
    "writable by the group of root": lambda tree: (tree.bin.chmod(0o775), tree.bin)[1],
}


@pytest.mark.parametrize("prepare", GOOD.values(), ids=list(GOOD))
def test_tool_that_only_root_can_change_is_run(tree: Tree, prepare: Callable[[Tree], Path]) -> None:
    capture = tree.read(prepare(tree))
    assert capture.failure is None
    assert capture.outputs[0].text == "GPU 0\n"


def given_away(path: Path) -> Path:
    os.chown(path, OTHER_USER, -1, follow_symlinks=False)
    return path


# Functions that change the tree; they return the searched folder and the path that is blamed.
BAD: dict[str, Callable[[Tree], tuple[Path, Path]]] = {
    "the tool belongs to another": lambda tree: (tree.bin, given_away(tree.tool)),
    "its folder does": lambda tree: (tree.bin, given_away(tree.bin)),
    "a folder further up does": lambda tree: (tree.bin, given_away(tree.vendor)),
    "all can write to the tool": lambda tree: (tree.tool.chmod(0o777), (tree.bin, tree.tool))[1],
    "all can write to its folder": lambda tree: (tree.bin.chmod(0o777), (tree.bin, tree.bin))[1],
    "its folder is sticky": lambda tree: (tree.bin.chmod(0o1777), (tree.bin, tree.bin))[1],
    "all can write further up": lambda tree: (tree.vendor.chmod(0o757), (tree.bin, tree.vendor))[1],
    "a group can write": lambda tree: (
        os.chown(tree.bin, -1, OTHER_USER),
        tree.bin.chmod(0o775),
        (tree.bin, tree.bin),
    )[2],
    "a link of another's": lambda tree: (linked(tree, tree.tool), given_away(tree.links / "smi")),
    "all can move the link": lambda tree: (
        linked(tree, tree.tool),
        tree.links.chmod(0o777),
        (tree.links, tree.links),
    )[2],
    "a link leads to another's": lambda tree: (linked(tree, tree.tool), given_away(tree.bin)),
}


@pytest.mark.needs("root")
@pytest.mark.parametrize("prepare", BAD.values(), ids=list(BAD))
def test_tool_that_others_can_change_is_not_run_as_root(
    tree: Tree, prepare: Callable[[Tree], tuple[Path, Path]]
) -> None:
    searched, blamed = prepare(tree)
    for capture in (tree.read(searched), tree.read("", path=str(searched / "smi"))):
        assert capture.failure is not None
        assert (capture.failure.state, capture.failure.reason) == ("failed", "no_permission")
        assert capture.failure.text.startswith(f"{searched}/smi is not run as root: {blamed} ")
        assert capture.failure.text.endswith((f"chown root {blamed}", f"chmod go-w {blamed}"))
        assert capture.outputs == ()
    assert ToolFolder(tree.bin).calls("smi") == []


@pytest.mark.needs("root")
def test_safe_tool_later_in_the_path_is_run_instead(tree: Tree, tmp_path: Path) -> None:
    bad = ToolFolder(tmp_path / "bad")
    bad.prints("smi", "GPU 7\n")
    bad.folder.chmod(0o777)
    capture = tree.read(f"{bad.folder}:{tree.bin}")
    assert [output.text for output in capture.outputs] == ["GPU 0\n"]
    assert bad.calls("smi") == []


@pytest.mark.needs("root")
def test_snapshot_and_doctor_report_the_refused_tool(tmp_path: Path) -> None:
    tools = ToolFolder(tmp_path / "tools")
    tools.prints(TOOL, tool_text())
    tools.folder.chmod(0o777)
    config = tmp_path / "telemetry.toml"
    state = f'[state]\ndirectory = "{tmp_path}/state"\nruntime_directory = "{tmp_path}/run"\n'
    config.write_text(state + TOOL_CONFIG)
    arguments = ("--source", TOOL, "--config", str(config))
    status, out, _ = run_main("doctor", *arguments, environment={"PATH": tools.search_path})
    output = " ".join(out.split())
    assert status == 2
    assert f"{TOOL}: failed (no_permission)" in output
    assert f"at {tools.folder}/{TOOL}, which telemetry refuses to run as root" in output
    assert f"chmod go-w {tools.folder}" in output
    status, out, _ = run_main("snapshot", *arguments, environment={"PATH": tools.search_path})
    assert (status, "is not run as root" in " ".join(out.split())) == (2, True), out
    assert tools.calls(TOOL) == []
