"""The package over an older release, under a real systemd: configuration, devices and recordings stay."""

import re
import shutil
import sys
from pathlib import Path

from boot import CARD, CONFIGURATION, Checks, journal, main, restarted, status
from machine import GIFTS, Machine, booted, until

OLD_PAGE, NEW_PAGE, REPLAY_PAGE = (f"http://127.0.0.1:{port}/metrics" for port in (19400, 19820, 19555))
# Settings of an administrator. The port is left at its default, which has changed since.
SETTINGS = """\
# written by the administrator of this node
[log]
format = "json"
[sources.ixsmi]
mode = "always"
interval = 1.0
[expect]
devices = { iluvatar = 2 }
[export.textfile]
path = "/var/lib/telemetry/telemetry.prom"
interval = 1.0
"""
REPLAY = """\
[state]
directory = "/srv/replay/lib"
runtime_directory = "/srv/replay/run"
[web]
listen_address = ["127.0.0.1:19555"]
"""
ROW_OF_THE_SECOND = re.compile(r"\| 1    Iluvatar.*?\n\+-*\+-*\+-*\+\n", re.DOTALL)
UPS = '^accelerator_up{.*vendor="iluvatar"'


def prepare(old: Path, new: Path, folder: Path) -> None:
    """Put both packages into the machine, and a card's tool before and after it lost its second die."""
    shutil.copy(old, folder / "old.deb")
    shutil.copy(new, folder / "new.deb")
    both = CARD.read_text()
    (folder / "both.txt").write_text(both)
    (folder / "one.txt").write_text(ROW_OF_THE_SECOND.sub("", both))
    (folder / "ixsmi").write_text("#!/bin/sh\nexec cat /srv/card.txt\n")
    (folder / "settings.toml").write_text(SETTINGS)
    (folder / "replay.toml").write_text(REPLAY)


def ups(machine: Machine, page: str) -> list[str]:
    """Return the lines with the state of the dies; empty while there is no answer."""
    asked = machine.run("bash", "-c", f"curl --silent --fail --max-time 5 {page} | grep '{UPS}'")
    return sorted(asked.stdout.splitlines())


def check_before(machine: Machine, checks: Checks) -> None:
    """Check the older release: it runs, has lost a die, and has recorded."""
    machine.shell(f"install -m 755 {GIFTS}/ixsmi /usr/local/bin/ixsmi; cp {GIFTS}/both.txt /srv/card.txt")
    machine.shell(f"install -D -m 644 {GIFTS}/settings.toml {CONFIGURATION}")
    with checks.check("the older release is installed, and keeps the configuration that was there"):
        machine.shell(f"dpkg --force-confold --install {GIFTS}/old.deb")
        assert until(lambda: [line[-3:] for line in ups(machine, OLD_PAGE)] == ["1.0", "1.0"]), journal(machine)
    with checks.check("it records, and a die is lost"):
        machine.shell("telemetry record --for 3 -o /srv/recording.jsonl")
        machine.shell(f"cp {GIFTS}/one.txt /srv/card.txt")
        assert until(lambda: [line[-3:] for line in ups(machine, OLD_PAGE)] == ["1.0", "0.0"]), journal(machine)


def check_upgrade(machine: Machine, checks: Checks) -> None:
    """Check that the new release continues with the state of the older one."""
    before, pid = ups(machine, OLD_PAGE), machine.show("MainPID")
    with checks.check("the upgrade asks nothing, keeps the configuration and starts the new release"):
        machine.shell(f"dpkg --force-confdef --force-confold --install {GIFTS}/new.deb")
        assert status(machine) == "ii"
        assert machine.shell(f"cat {CONFIGURATION}") == SETTINGS
        assert until(lambda: restarted(machine, pid)), journal(machine)
        machine.shell("telemetry config check")
    with checks.check("it answers at its own default port, as no port is set"):
        assert until(lambda: ups(machine, NEW_PAGE) != []), journal(machine)
        assert ups(machine, OLD_PAGE) == []
    with checks.check("devices keep their ids, and the die that was lost before is still missed"):
        assert until(lambda: ups(machine, NEW_PAGE) == before), (before, ups(machine, NEW_PAGE))
        machine.shell(f"cp {GIFTS}/both.txt /srv/card.txt")
        assert until(lambda: [line[-3:] for line in ups(machine, NEW_PAGE)] == ["1.0", "1.0"]), journal(machine)
    with checks.check("settings are in force: the format of the log, the textfile"):
        assert journal(machine).splitlines()[-1].startswith("{"), journal(machine)
        assert until(lambda: not machine.fails("grep --quiet accelerator_up /var/lib/telemetry/telemetry.prom"))
    with checks.check("a recording of the older release is played"):
        machine.shell(f"mkdir /srv/replay; cp {GIFTS}/replay.toml /srv/")
        serve = "telemetry serve --config /srv/replay.toml --replay /srv/recording.jsonl"
        machine.shell(f"systemd-run --quiet --unit replay {serve}")
        played = until(lambda: [line[-3:] for line in ups(machine, REPLAY_PAGE)] == ["1.0", "1.0"])
        assert played, machine.shell("journalctl --unit replay --no-pager --output cat | tail -20")
        machine.shell("systemctl stop replay")


def check_way_back(machine: Machine, checks: Checks) -> None:
    """Check the downgrade as docs/install.md describes it."""
    with checks.check("the way back: the older release runs with the same configuration"):
        machine.shell(f"dpkg --force-downgrade --force-confdef --force-confold --install {GIFTS}/old.deb")
        assert until(lambda: len(ups(machine, OLD_PAGE)) == 2), journal(machine)
        assert machine.shell(f"cat {CONFIGURATION}") == SETTINGS
    with checks.check("and forward again, and away: /opt stays"):
        machine.shell(f"dpkg --force-confdef --force-confold --install {GIFTS}/new.deb")
        assert until(lambda: len(ups(machine, NEW_PAGE)) == 2), journal(machine)
        machine.shell("dpkg --purge device-telemetry")
        assert machine.shell("ls --almost-all /opt") == ""


def run(old: Path, new: Path, trees: Path, suite: str) -> int:
    """Boot, check, and print the result; return 1 if a check failed."""
    checks = Checks()
    with booted(trees, suite, lambda gifts: prepare(old, new, gifts)) as machine:
        checks.run((check_before, check_upgrade, check_way_back), machine)
    return checks.result()


if __name__ == "__main__":
    sys.exit(main(run, sys.argv[1:], packages=2))
