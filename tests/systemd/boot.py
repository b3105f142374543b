"""The Debian package under a real systemd, from installation to purge: a line per check, then the totals."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from machine import GIFTS, Machine, MachineError, booted, until

CHECKOUT = Path(__file__).resolve().parents[2]
CARD = CHECKOUT / "tests/captures/ixsmi/table-two-dies-busy.txt"
CONFIGURATION = "/etc/telemetry/telemetry.toml"
PAGE = "http://127.0.0.1:19820/metrics"
NEEDED = ("systemd-nspawn", "debootstrap", "nsenter", "dpkg-deb")
OWN_LINE = "# written by the administrator of this node"
NEW_LINE = "# a line of the next release"
# Runs with the unit's restrictions before the daemon, and records its results.
PROBE = """\
import json, os, pathlib
def refusal(action):
    try:
        action()
    except OSError as error:
        return error.strerror
    return "allowed"
nodes = ("/dev/nvidia0", "/dev/dri/renderD128", "/dev/net/tun", "/dev/gcu0")
opened = {node: refusal(lambda: os.open(node, os.O_RDWR)) for node in nodes}
written = {place: refusal(lambda: pathlib.Path(place, "x").touch()) for place in ("/etc", "/usr", "/opt", "/dev/shm")}
status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
pathlib.Path("/var/lib/telemetry/probe.json").write_text(json.dumps({
    "opened": opened, "written": written, "groups": len(os.getgroups()), "capabilities": int(status["CapBnd"], 16),
    "init": pathlib.Path("/proc/1/comm").read_text().strip(), "uid": os.getuid(),
}))
"""
# The installed daemon, but it looks for new device nodes every second instead of every ten minutes.
HURRIED = """\
#!/opt/device-telemetry/bin/python3
import sys
from telemetry_daemon import cli
from telemetry_daemon.readers import device_nodes
device_nodes.CHECK_SECONDS = device_nodes.MIN_UPTIME_SECONDS = 1.0
sys.exit(cli.main())
"""


class Checks:
    """Runs checks one after the other and counts their results."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0

    @contextmanager
    def check(self, words: str) -> Iterator[None]:
        """Check a statement about the package by a command in the machine."""
        began = time.monotonic()
        with self.step(words):
            yield
            self.passed += 1
            print(f"ok   {words} ({time.monotonic() - began:.1f} s)", flush=True)

    @contextmanager
    def step(self, words: str) -> Iterator[None]:
        """Run a step between checks; it is counted only if it fails."""
        try:
            yield
        except (AssertionError, subprocess.TimeoutExpired, KeyError, ValueError) as error:
            self.failed += 1
            print(f"FAIL {words}: {error or type(error).__name__}", flush=True)

    def run(self, steps: Sequence[Callable[[Machine, Checks], None]], machine: Machine) -> None:
        """Run each step; one that fails does not prevent the next."""
        for step in steps:
            with self.step(step.__name__):
                step(machine, self)

    def result(self) -> int:
        """Print the result; return 1 if a check failed."""
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed else 0


def next_release(package: Path, folder: Path) -> Path:
    """Build the package with a later version and a changed default configuration."""
    root = folder / "next"
    subprocess.run(["dpkg-deb", "--raw-extract", str(package), str(root)], check=True)
    control = root / "DEBIAN/control"
    control.write_text(control.read_text().replace("\nVersion: ", "\nVersion: 9:"))
    with (root / CONFIGURATION[1:]).open("a") as defaults:
        defaults.write(NEW_LINE + "\n")
    made = folder / "next.deb"
    line = ["dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "--build", str(root), str(made)]
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, str(CHECKOUT / "deploy/debian/without_opt.py"), str(made)], check=True)
    return made


def prepare(package: Path, folder: Path) -> None:
    """Put two releases of the package, a card's tool and the probe into the machine."""
    shutil.copy(package, folder / "package.deb")
    next_release(package, folder)
    shutil.copy(CARD, folder / "card.txt")
    (folder / "ixsmi").write_text(f"#!/bin/sh\nexec cat {GIFTS}/card.txt\n")
    (folder / "ixsmi").chmod(0o755)
    (folder / "probe.py").write_text(PROBE)
    (folder / "hurried").write_text(HURRIED)


def drop_in(machine: Machine, name: str, text: str) -> None:
    machine.shell(
        f"mkdir -p /etc/systemd/system/telemetry.service.d && printf '{text}' "
        f"> /etc/systemd/system/telemetry.service.d/{name}.conf && systemctl daemon-reload"
    )


def scraped(machine: Machine, words: str, page: str = PAGE) -> bool:
    """Return whether a scrape contains a line with these words."""
    # grep -c, because a grep that exits at its first match breaks curl's pipe.
    return not machine.fails(f"curl --silent --fail --max-time 5 {page} | grep --count -- '{words}'")


def probed(machine: Machine) -> Any:
    """Return what the probe found at the last start."""
    return json.loads(machine.shell("cat /var/lib/telemetry/probe.json"))


def restarted(machine: Machine, pid: str) -> bool:
    """Return whether another process is the active, notified service."""
    return machine.show("ActiveState") == "active" and machine.show("MainPID") not in ("0", pid)


def status(machine: Machine) -> str:
    """Return dpkg's state of the package: `ii` for installed."""
    return machine.shell("dpkg-query --show --showformat='${db:Status-Abbrev}' device-telemetry").strip()


def check_installation(machine: Machine, checks: Checks) -> None:
    """Check the installation, from an empty machine to a scrape."""
    machine.shell(f"ln -s {GIFTS}/ixsmi /usr/local/bin/ixsmi")
    # Nodes as drivers make them: NVIDIA's and DRM's numbers are fixed, the other is no accelerator.
    machine.shell("mknod -m 666 /dev/nvidia0 c 195 0; mkdir -p /dev/dri; mknod -m 666 /dev/dri/renderD128 c 226 128")
    machine.shell("chmod 666 /dev/net/tun || mknod -m 666 /dev/net/tun c 10 200")
    with checks.check("the package does not go over what install.sh has installed"):
        machine.shell("ln -s /opt/device-telemetry/venv/bin/telemetry /usr/local/bin/telemetry")
        refused = machine.run("dpkg", "--install", f"{GIFTS}/package.deb")
        assert refused.returncode != 0
        assert "install.sh --uninstall" in refused.stderr, refused.stderr
        machine.shell("rm /usr/local/bin/telemetry")
    with checks.check("what was there before stays: a mask on the unit, another account of that name"):
        machine.shell("useradd --home-dir /srv/other telemetry; systemctl mask telemetry")
        machine.shell(f"dpkg --install {GIFTS}/package.deb")
        assert status(machine) == "ii"
        assert machine.run("systemctl", "is-enabled", "telemetry").stdout.strip() == "masked"
        machine.shell("dpkg --purge device-telemetry")
        assert machine.shell("getent passwd telemetry | cut -d : -f 6").strip() == "/srv/other"
        machine.shell("systemctl unmask telemetry; userdel telemetry")
    with checks.check("the package installs without a network"):
        assert machine.shell("ls /sys/class/net").split() == ["lo"]
        machine.shell(f"rmdir /opt && dpkg --install {GIFTS}/package.deb")
        assert status(machine) == "ii"
    with checks.check("the service is enabled, active and has notified"):
        assert machine.shell("systemctl is-enabled telemetry").strip() == "enabled"
        assert machine.show("ActiveState") == "active"
        assert machine.show("StatusText") == "serving on 127.0.0.1:19820"
    with checks.check("it runs as its own user, in the groups of the device nodes"):
        process = machine.show("MainPID")
        assert machine.shell(f"stat --format %U /proc/{process}").strip() == "telemetry"
        assert {"video", "render"} <= set(machine.shell("systemctl show telemetry -P SupplementaryGroups").split())
    with checks.check("a scrape shows the card that a vendor's tool prints"):
        assert until(lambda: scraped(machine, '^accelerator_power_watts.*vendor="iluvatar"')), journal(machine)
    with checks.check("a scrape shows the host's memory, read from /proc"):
        assert until(lambda: scraped(machine, "^telemetry_host_memory_total_bytes "))
    with checks.check("the commands work: version, config check, snapshot, doctor"):
        assert machine.shell("telemetry version").startswith("telemetry ")
        machine.shell("telemetry config check")
        assert json.loads(machine.shell("telemetry snapshot --format json"))["devices"]
        assert "ixsmi" in machine.shell("telemetry doctor || [ $? -eq 2 ]")
    with checks.check("the journal has no complaint of systemd about the unit"):
        complaints = machine.shell("journalctl --boot _PID=1 --output=cat --no-pager -p warning")
        assert "telemetry" not in complaints, complaints
        assert "Couldn't stat device" not in complaints, complaints


def check_walls(machine: Machine, checks: Checks) -> None:
    """Check the unit's limits from inside the daemon."""
    drop_in(machine, "probe", f"[Service]\\nExecStartPre=/usr/bin/python3 {GIFTS}/probe.py\\n")
    machine.shell("systemctl restart telemetry")
    met = probed(machine)
    with checks.check("inside the unit: accelerators may be opened, no other device"):
        # The nodes have no driver: nodes that the allow-list permits fail with "No such device".
        assert met["opened"]["/dev/nvidia0"].startswith("No such device"), met
        assert met["opened"]["/dev/dri/renderD128"].startswith("No such device"), met
        assert met["opened"]["/dev/net/tun"] == "Operation not permitted", met
    with checks.check("inside the unit: no capability, other processes visible, nothing to write but what is meant"):
        assert (met["capabilities"], met["init"], met["uid"] == 0) == (0, "systemd", False), met
        assert met["written"].pop("/dev/shm") == "allowed", met
        assert set(met["written"].values()) == {"Read-only file system"}, met
    with checks.check("a driver that is loaded later: the daemon asks for a new start, and may open its node"):
        # A number that is not on the unit's list, under the name of an accelerator, and admitted by its path.
        drop_in(machine, "late", "[Service]\\nDeviceAllow=/dev/gcu0 rw\\nRestartSec=1\\n")
        machine.shell(f"install -m 755 {GIFTS}/hurried /usr/local/bin/telemetry; systemctl restart telemetry")
        pid = machine.show("MainPID")
        machine.shell("mknod -m 666 /dev/gcu0 c 10 229")
        assert until(lambda: restarted(machine, pid)), journal(machine)
        assert "status=75" in machine.shell("journalctl --unit telemetry --no-pager --output cat")
        assert probed(machine)["opened"]["/dev/gcu0"] != "Operation not permitted"
    machine.shell("rm /dev/gcu0 /usr/local/bin/telemetry")
    machine.shell("rm /etc/systemd/system/telemetry.service.d/* && systemctl daemon-reload")


def check_accidents(machine: Machine, checks: Checks) -> None:
    drop_in(machine, "test", "[Service]\\nRestartSec=1\\nWatchdogSec=3\\nTimeoutStopSec=2\\n")
    machine.shell("systemctl restart telemetry")
    pid = machine.show("MainPID")
    with checks.check("kill -9 restarts it"):
        machine.shell(f"kill -KILL {pid}")
        assert until(lambda: restarted(machine, pid)), journal(machine)
        assert until(lambda: scraped(machine, "^telemetry_build_info"))
    pid = machine.show("MainPID")
    with checks.check("a frozen daemon is restarted by the watchdog"):
        machine.shell(f"kill -STOP {pid}")
        assert until(lambda: restarted(machine, pid), 60), journal(machine)
        assert "Watchdog timeout" in machine.shell("journalctl --unit telemetry --no-pager --output cat")
        assert until(lambda: scraped(machine, "^telemetry_build_info"))
    with checks.check("a bad configuration ends it once, with a line that says why"):
        machine.shell(f"cp {CONFIGURATION} /srv/good.toml; echo 'no_such_key = 1' > {CONFIGURATION}")
        before = machine.show("NRestarts")
        assert machine.fails("systemctl restart telemetry")
        time.sleep(3)
        assert (machine.show("ActiveState"), machine.show("ExecMainStatus")) == ("failed", "78")
        assert machine.show("NRestarts") in ("0", before)
        assert "no_such_key" in journal(machine), journal(machine)
    machine.shell(f"cp /srv/good.toml {CONFIGURATION}; systemctl restart telemetry")


def check_reload(machine: Machine, checks: Checks) -> None:
    pid = machine.show("MainPID")
    with checks.check("systemctl reload applies a changed configuration, in the same process"):
        machine.shell(
            f'printf \'{OWN_LINE}\\n[web]\\nlisten_address = ["127.0.0.1:19820", "127.0.0.1:19555"]\\n\' '
            f"> {CONFIGURATION}; systemctl reload telemetry"
        )
        assert until(lambda: scraped(machine, "^telemetry_build_info", PAGE.replace("19820", "19555")))
        assert machine.show("MainPID") == pid
    with checks.check("a reload of a bad file fails and leaves the running configuration in force"):
        machine.shell(f"cp {CONFIGURATION} /srv/good.toml; echo 'no_such_key = 1' >> {CONFIGURATION}")
        assert machine.fails("systemctl reload telemetry")
        assert "no_such_key" in journal(machine), journal(machine)
        assert machine.show("ActiveState") == "active"
        assert until(lambda: scraped(machine, "^telemetry_config_last_reload_successful 0"))
        assert scraped(machine, "^telemetry_build_info", PAGE.replace("19820", "19555"))
        assert machine.show("MainPID") == pid
    machine.shell(f"cp /srv/good.toml {CONFIGURATION}; systemctl reload telemetry")


def check_upgrade(machine: Machine, checks: Checks) -> None:
    """Check that a later release takes over and the administrator's changes stay."""
    pid = machine.show("MainPID")
    with checks.check("an upgrade keeps the configuration and starts the new release"):
        machine.shell(f"dpkg --force-confdef --force-confold --install {GIFTS}/next.deb")
        assert OWN_LINE in machine.shell(f"cat {CONFIGURATION}")
        assert NEW_LINE in machine.shell(f"cat {CONFIGURATION}.dpkg-dist")
        assert until(lambda: restarted(machine, pid)), journal(machine)
        assert until(lambda: scraped(machine, '^accelerator_power_watts.*vendor="iluvatar"'))
    with checks.check("a service that was disabled stays disabled over an upgrade"):
        machine.shell("systemctl disable --now telemetry")
        machine.shell(f"dpkg --force-confdef --force-confold --install {GIFTS}/next.deb")
        assert machine.fails("systemctl is-enabled telemetry")
        assert machine.show("ActiveState") == "inactive"
        machine.shell("systemctl enable --now telemetry")
    with checks.check("a removal that is broken off leaves the service running"):
        scripts = "/var/lib/dpkg/info/device-telemetry"
        machine.shell(f"{scripts}.prerm remove; {scripts}.postinst abort-remove")
        assert machine.show("ActiveState") == "active"


def check_end(machine: Machine, checks: Checks) -> None:
    user = machine.shell("id --user telemetry").strip()
    with checks.check("remove leaves nothing running, and the configuration where it is"):
        machine.shell("dpkg --remove device-telemetry")
        assert machine.shell(f"find /proc -maxdepth 1 -uid {user}") == ""
        assert not scraped(machine, "")
        assert OWN_LINE in machine.shell(f"cat {CONFIGURATION}")
        assert machine.shell("ls --almost-all /opt") == ""
    with checks.check("the package installs over a configuration that fails, and says so"):
        machine.shell(f"echo 'no_such_key = 1' >> {CONFIGURATION}")
        done = machine.run("dpkg", "--force-confold", "--install", f"{GIFTS}/package.deb")
        assert "telemetry.service did not start" in done.stderr, done.stderr
        assert (status(machine), machine.show("ActiveState")) == ("ii", "failed")
    with checks.check("purge leaves nothing: no user, no file, no trace in systemd"):
        machine.shell("dpkg --purge device-telemetry")
        assert machine.fails("getent passwd telemetry")
        assert machine.fails("getent group telemetry")
        left = machine.shell(f"find / /run -xdev -name '*telemetry*' -o -xdev -uid {user}").split()
        # Older releases of systemd keep an empty folder of their own for each unit that ran.
        left = [path for path in left if not path.startswith("/run/systemd/propagate/")]
        assert left == [], left
        assert machine.shell("systemctl list-units --all --no-legend '*telemetry*'").strip() == ""


def journal(machine: Machine) -> str:
    return machine.shell("journalctl --unit telemetry --no-pager --lines 20 --output cat")


STEPS = (
    check_installation,
    check_walls,
    check_accidents,
    check_reload,
    check_upgrade,
    check_end,
)


def suite_of_this_machine() -> str:
    """Return the name of this Debian, for which the package was built."""
    lines = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return lines.get("VERSION_CODENAME", "").strip('"')


def run(package: Path, trees: Path, suite: str) -> int:
    """Boot, check, and print the result; return 1 if a check failed."""
    checks = Checks()
    with booted(trees, suite, lambda gifts: prepare(package, gifts)) as machine:
        checks.run(STEPS, machine)
    return checks.result()


def main(run: Callable[..., int], arguments: list[str], packages: int = 1) -> int:
    """Run the checks on the packages named in the arguments, on the named Debian release or on this machine's."""
    missing = [tool for tool in NEEDED if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        wanted = ", ".join([*missing, *(["root"] if os.geteuid() != 0 else [])])
        sys.exit(f"test-systemd needs {wanted} (Debian: apt-get install systemd-container debootstrap)")
    suite = arguments[packages] if arguments[packages:] else suite_of_this_machine()
    try:
        return run(*map(Path, arguments[:packages]), CHECKOUT / "build/systemd-trees", suite)
    except MachineError as error:
        sys.exit(f"test-systemd: {error}")


if __name__ == "__main__":
    sys.exit(main(run, sys.argv[1:]))
