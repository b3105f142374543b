"""install.sh on a folder in place of a node: install, remove, repeat, upgrade, and refusals."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kits.captures import ROOT
from kits.fed_node import demo_snapshot
from kits.offline_bundle import Bundle, bundle
from kits.web_server import cheap_hash, make_pki, running_server
from telemetry_daemon.web.messages import Request, Response
from telemetry_exporters.prometheus.renderer import Renderer

# Folders of every node, which a purge keeps.
FOLDERS = ("etc/systemd/system", "opt", "usr/local/bin", "usr/local/share/man", "var/lib", "run")
PROGRAM = "opt/device-telemetry/venv/bin/telemetry"
OTHER_USER = 65534
CONFIGURATION = "etc/telemetry/telemetry.toml"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Return the root of a node on which nothing of ours is installed."""
    for name in FOLDERS:
        (tmp_path / "node" / name).mkdir(parents=True)
    return tmp_path / "node"


def tree(root: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        state = path.lstat()
        content = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(root))] = (state.st_mode, content, None if path.is_dir() else state.st_mtime_ns)
    return found


def installed(node: Path, made: Bundle, *arguments: str) -> str:
    done = made.run(node, "--python", sys.executable, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.installed
def test_what_is_installed_and_removed_leaves_no_trace(tmp_path: Path, node: Path) -> None:
    before = tree(node)
    made = bundle(tmp_path / "bundle", "1.0")
    output = installed(node, made)
    assert "installed: telemetry 1.0" in output
    # The script reports the steps that are impossible for a staged root.
    assert re.findall("^skipped: (.*)", output, re.MULTILINE) == [
        "user and groups, because of DESTDIR",
        "starting the service, because of DESTDIR",
        "a scrape, because of DESTDIR",
    ]
    assert (node / CONFIGURATION).read_text() == (ROOT / "deploy" / "telemetry.toml").read_text()
    unit = (node / "etc/systemd/system/telemetry.service").read_text()
    assert f"ExecStart=/{PROGRAM} serve\n" in unit
    assert f'ExecReload=/bin/sh -c "/{PROGRAM} config check;' in unit
    assert (node / "usr/local/bin/telemetry").readlink() == Path(f"/{PROGRAM}")
    # The program must run when the folder has become the root.
    assert str(node) not in (node / PROGRAM).read_text()
    page = (node / "usr/local/share/man/man1/telemetry.1").readlink()
    assert (node / page.relative_to("/")).is_file()
    # Bindings that no driver installs are included.
    assert list((node / "opt/device-telemetry/venv/lib").rglob("pymtml.py"))

    first = tree(node)
    # The path of Python may be relative to the current folder.
    again = made.run(node, "--python", f"./{Path(sys.executable).name}", cwd=Path(sys.executable).parent)
    assert (again.returncode, again.stderr) == (0, ""), again.stdout
    assert again.stdout.endswith("nothing was changed\n")
    assert tree(node) == first

    (node / "var/lib/telemetry").mkdir()
    printed = installed(node, made, "--purge", "--dry-run")
    assert len(re.findall(r"^would run: rm -rf ", printed, re.MULTILINE)) == 9
    assert "removed:" not in printed
    (node / "var/lib/telemetry").rmdir()
    assert tree(node) == first
    (node / "var/lib/telemetry").mkdir()
    assert "kept:" in installed(node, made, "--uninstall")
    left = {name for name in tree(node) if name not in before}
    assert left == {"etc/telemetry", CONFIGURATION, "var/lib/telemetry"}
    installed(node, made, "--purge")
    assert tree(node) == before
    assert installed(node, made, "--purge") == "nothing was changed\n"


@pytest.mark.installed
def test_an_upgrade_keeps_the_configuration_and_nothing_of_the_old_program(tmp_path: Path, node: Path) -> None:
    installed(node, bundle(tmp_path / "old", "1.0"))
    old = (node / "opt/device-telemetry/venv").resolve()
    (node / CONFIGURATION).write_text("old-word = 1\n")
    before = tree(node / "opt") | tree(node / "etc")
    done = bundle(tmp_path / "newer", "2.0", refused="old-word").run(node, "--python", sys.executable)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "telemetry: old-word: no such setting",
        f"install.sh: version 2.0 does not take {node}/{CONFIGURATION}; nothing was changed",
    ]
    assert tree(node / "opt") | tree(node / "etc") == before

    assert "installed: telemetry 2.1" in installed(node, bundle(tmp_path / "new", "2.1"))
    assert (node / CONFIGURATION).read_text() == "old-word = 1\n"
    assert not old.exists()
    assert len(list((node / "opt/device-telemetry").iterdir())) == 2


def damaged(made: Bundle, _node: Path) -> None:
    wheel = next((made.folder / "wheels").glob("device_telemetry-*"))
    wheel.write_bytes(wheel.read_bytes() + b"x")


def other_pythons_only(made: Bundle, _node: Path) -> None:
    wheel = next((made.folder / "wheels").glob("device_telemetry-*"))
    wheel.rename(wheel.with_name("device_telemetry-1.0-cp399-cp399-linux_aarch64.whl"))
    made.sum_up()


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (damaged, "the bundle is damaged; unpack it again"),
        (other_pythons_only, "there is no Python that this bundle has wheels for: 3.99 on aarch64"),
    ],
)
def test_impossible_installation_is_refused_before_any_change(
    tmp_path: Path, node: Path, spoil: object, complaint: str
) -> None:
    made = bundle(tmp_path / "bundle", "1.0")
    spoil(made, node)
    before = tree(node)
    done = made.run(node, "--python", sys.executable)
    assert done.returncode == 1
    assert complaint in done.stderr.splitlines()[-1]
    assert tree(node) == before


TLS = "tls_server_config:\n  cert_file: server-1.crt\n  key_file: server-1.key\n"
PASSWORDS = f"basic_auth_users:\n  prometheus: {cheap_hash('secret')}\n"
CERTIFICATES = "  client_ca_file: authority.crt\n  client_auth_type: RequireAndVerifyClientCert\n"


@contextmanager
def served(folder: Path, web_config: str, path: str) -> Iterator[str]:
    """Return the address of a node with a card, guarded by this configuration."""
    page = Renderer().text(demo_snapshot("1xamd"))
    make_pki(folder)
    (folder / "web.yml").write_text(web_config)

    def answer(request: Request) -> Response:
        return Response(200, (page,)) if request.path in (path, "/readyz") else Response(404, (b"",))

    with running_server(answer, config_file=folder / "web.yml" if web_config else "") as server:
        yield f"127.0.0.1:{server.port}"


@pytest.mark.parametrize(
    ("web_config", "path", "expected"),
    [
        ("", "/page", ["it answers at http://{}/page", "found: 1 x amd "]),
        (TLS, "/metrics", ["it answers at https://{}/metrics", "found: 1 x amd "]),
        (TLS + PASSWORDS, "/metrics", ["it answers at https://{}/metrics and wants a password"]),
        (TLS + CERTIFICATES, "/metrics", ["it answers at https://{}/metrics and wants a client's certificate"]),
    ],
)
def test_the_scrape_after_an_installation(tmp_path: Path, web_config: str, path: str, expected: list[str]) -> None:
    """The installation reports that the page is served, whatever its access rules."""
    with served(tmp_path, web_config, path) as address:
        done = scrape(address, path)
        assert done.returncode == 0, done.stdout + done.stderr
        for line, start in zip(done.stdout.splitlines(), expected, strict=True):
            assert line.startswith(start.format(address))


def scrape(address: str, path: str) -> subprocess.CompletedProcess[str]:
    program = re.search(r"<<'END'\n(import .*?)\nEND\n", (ROOT / "deploy/install.sh").read_text(), re.DOTALL)
    assert program is not None
    line = [sys.executable, "-I", "-", address, path]
    return subprocess.run(line, input=program[1], capture_output=True, text=True)


def test_a_wrong_argument_and_a_wrong_user(tmp_path: Path) -> None:
    made = bundle(tmp_path / "bundle", "1.0")
    done = made.run(None, "--unknown")
    assert done.returncode == 64
    assert done.stderr.startswith("usage: install.sh")
    alone = subprocess.run(
        ["bash", "-s"],
        input=(made.folder / "install.sh").read_text(),
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        user=OTHER_USER if os.getuid() == 0 else None,
    )
    assert alone.returncode == 1
    assert "install.sh: run it as root" in alone.stderr


def test_dry_run_prints_commands_and_changes_nothing(tmp_path: Path, node: Path) -> None:
    before = tree(node)
    output = installed(node, bundle(tmp_path / "bundle", "1.0"), "--dry-run")
    assert len(re.findall("^would run: ", output, re.MULTILINE)) >= 4
    assert "installed:" not in output
    assert tree(node) == before
