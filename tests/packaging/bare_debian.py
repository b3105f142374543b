"""The first two commands of README in a fresh clone, on a Debian with only the packages that README requires.

`make test-bare` runs it as root, who unpacks the Debian; an unprivileged user runs the commands. pip has the same settings
there as on this machine.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kits.captures import ROOT
from kits.ports import free_address

# The supported Debian releases.
SUITES = ("bookworm", "trixie")
PACKAGES = ("git", "make", "python3", "python3-venv")
TREES = ROOT / "build" / "bare"
USER, HOME = 1000, "/home/newcomer"
# A part of `make test`, on the newest, since CI runs all on a Python of its own: the first that failed on such a machine, for want of a program, of root or of a Python as python.org makes it.
PART = (
    "--level quick tests/packaging/test_automation.py tests/packaging/test_serve_script.py"
    " tests/packaging/test_install_script.py tests/plugins/test_example_plugin.py tests/polling tests/faults/test_root_tools.py"
    " tests/nvml/test_without_compiler.py tests/nvml/test_reader_drivers.py tests/benchmarks/test_fleet.py"
)
# Variables of a new user's shell: a locale that is not installed, a dead proxy, settings of telemetry.
SHELL = {"LC_ALL": "zh_CN.UTF-8", "http_proxy": "http://127.0.0.1:9", "COLUMNS": "50", "TELEMETRY_LOG_LEVEL": "debug"}
OF_PIP = re.compile(r"PIP_.*|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|(https?|all|no)_proxy", re.IGNORECASE)
SET_UP = f"""\
set -eu
tree=$1; home=$2; places=$3; shift 3
mount --bind "$tree" "$tree"
mount -t proc proc "$tree/proc"
mount --rbind /dev "$tree/dev"
mount --rbind /sys "$tree/sys"
mount -t tmpfs tmpfs "$tree/tmp"
for each in $places; do
    if [ -d "$each" ]; then mkdir -p "$tree$each"; else mkdir -p "$tree${{each%/*}}"; touch "$tree$each"; fi
    mount --bind "$each" "$tree$each"
done
mkdir -p "$tree{HOME}"
mount --bind "$home" "$tree{HOME}"
chroot --userspec={USER}:{USER} "$tree" env --default-signal=INT --chdir={HOME}/clone "$@"
"""

pytestmark = [pytest.mark.needs("root", "debootstrap", "unshare"), pytest.mark.timeout(5400)]


def unpacked(suite: str) -> Path:
    """Return the folder of the unpacked Debian release, which is kept between runs."""
    tree, done = TREES / suite, TREES / f"{suite}.done"
    if not done.exists():
        shutil.rmtree(tree, ignore_errors=True)  # there is none before the first time
        TREES.mkdir(parents=True, exist_ok=True)
        line = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, str(tree)]
        # Mounts end with the namespace.
        made = subprocess.run(["unshare", "--mount", *line], capture_output=True, text=True)
        assert made.returncode == 0, (made.stdout + made.stderr)[-2000:]
        with (tree / "etc/passwd").open("a") as users:
            users.write(f"newcomer:x:{USER}:{USER}::{HOME}:/bin/bash\n")
        done.touch()
    return tree


def settings_of_pip() -> dict[str, str]:
    """Return pip's settings from its environment and its files, which do not exist in the tree."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    found = re.findall(r"^(?:global|install)\.([a-z-]+)='(.*)'$", listed.stdout, flags=re.MULTILINE)
    in_files = {f"PIP_{name.upper().replace('-', '_')}": text for name, text in found}
    return in_files | {name: text for name, text in os.environ.items() if OF_PIP.fullmatch(name)}


@dataclass(frozen=True)
class Bare:
    tree: Path
    home: Path

    def line(self, command: str, environment: dict[str, str]) -> Sequence[str]:
        """Return the command that runs a command line in the clone as the user."""
        pip = settings_of_pip()
        config_paths = {value for value in pip.values() if value.startswith("/") and Path(value).exists()}
        around = {"HOME": HOME, "USER": "newcomer", "PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "dumb"}
        variables = [f"{name}={text}" for name, text in (around | pip | environment).items()]
        shared = " ".join(sorted({"/etc/resolv.conf", "/etc/hosts", *config_paths}))
        enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", SET_UP, "sh"]
        return [*enter, str(self.tree), str(self.home), shared, "-i", *variables, "bash", "-c", command]

    def run(self, command: str, environment: dict[str, str]) -> tuple[int, str]:
        done = subprocess.run(
            self.line(command, environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        print(done.stdout)
        return done.returncode, done.stdout

    @contextmanager
    def running(self, command: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
        """Run a command until Ctrl-C, and yield its output."""
        with subprocess.Popen(
            self.line(command, environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                os.killpg(process.pid, signal.SIGINT)


@pytest.fixture(scope="module", params=SUITES)
def bare(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bare:
    tree = unpacked(request.param)
    home = tmp_path_factory.mktemp("home")
    git = ["git", "-c", "safe.directory=*", "clone", "--quiet", "--no-local", str(ROOT), str(home / "clone")]
    subprocess.run(git, check=True)
    for path in (home, *home.rglob("*")):
        os.chown(path, USER, USER, follow_symlinks=False)
    return Bare(tree, home)


def test_make_run_prints_its_address_once_it_answers(bare: Bare) -> None:
    address = free_address()
    with bare.running("make run", {"TELEMETRY_WEB_LISTEN_ADDRESS": address}) as process:
        assert process.stdout is not None
        lines = []
        while not lines or not lines[-1].startswith("open "):
            lines.append(process.stdout.readline())
            assert lines[-1], lines
        assert lines[-1] == f"open http://{address}/ – Ctrl-C ends it\n"
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            page = answer.read().decode()
        assert "accelerator_power_watts{" in page
        os.killpg(process.pid, signal.SIGINT)
        after = process.stdout.read()
    print("".join(lines), after)
    assert [line for line in lines if "warning" in line.lower() or "error" in line.lower()] == []
    assert [line for line in after.splitlines() if not line.startswith("make: ***")] == []


@pytest.mark.parametrize("bare", SUITES[-1:], indirect=True)
def test_make_test_passes_and_lists_skipped_tests(bare: Bare) -> None:
    status, output = bare.run(f'make test ARGS="{PART}"', SHELL)
    assert status == 0
    assert re.search(r"^ *\d+ only root can do this$", output, flags=re.MULTILINE)
    assert re.search(r"^ *\d+ for lack of .*\bcc\b.*: apt-get install .*\bgcc\b", output, flags=re.MULTILINE)
    assert re.search(r"^[1-9]\d* passed", output, flags=re.MULTILINE)
    assert re.search(r"^cost: .* yardsticks", output, flags=re.MULTILINE)
