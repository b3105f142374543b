"""install.sh under a real systemd, offline: from the bundle to a scrape, repeated, upgraded, and removed."""

import shutil
import sys
from pathlib import Path

from boot import CARD, CONFIGURATION, Checks, main, restarted, scraped
from machine import GIFTS, Machine, booted, until

INSTALL = "/srv/bundle/install.sh"
# Folders that an installation may change, and a purge must restore.
PLACES = "/etc /opt /usr/local /var/lib"
SEEN = f"find {PLACES} -xdev -not -path '/etc/*-' -not -path '/var/lib/systemd/*' | sort"


def prepare(bundle: Path, folder: Path) -> None:
    """Put the bundle and a card's tool into the machine."""
    shutil.copy(bundle, folder / "bundle.tar.gz")
    shutil.copy(CARD, folder / "card.txt")
    (folder / "ixsmi").write_text(f"#!/bin/sh\nexec cat {GIFTS}/card.txt\n")
    (folder / "ixsmi").chmod(0o755)


def check_image(machine: Machine, checks: Checks) -> None:
    """Check an installation into an image without a running systemd, which already has the user."""
    machine.shell("useradd --home-dir /srv/other --gid users telemetry")
    hidden = "unshare --mount sh -c 'mount -t tmpfs none /run/systemd; exec {}'"
    with checks.check("in an image the service is enabled, and will find its group"):
        output = machine.shell(hidden.format(INSTALL))
        assert "skipped: starting the service: systemd does not run here" in output, output
        assert machine.shell("systemctl is-enabled telemetry").strip() == "enabled"
        machine.shell("getent group telemetry")
    with checks.check("--purge leaves an account that was there before"):
        machine.shell(hidden.format(f"{INSTALL} --purge"))
        assert machine.shell("getent passwd telemetry | cut -d : -f 6").strip() == "/srv/other"
    machine.shell("userdel telemetry; groupdel telemetry")


def check_installation(machine: Machine, checks: Checks) -> None:
    """Check the installation, from an empty machine to a scrape, and a second run."""
    labeller = "/usr/local/sbin/restorecon"
    machine.shell(f"printf '#!/bin/sh\\necho \"$@\" > /srv/labelled' > {labeller}; chmod 755 {labeller}")
    with checks.check("the bundle installs without a network, and says what it found"):
        assert machine.shell("ls /sys/class/net").split() == ["lo"]
        output = machine.shell(INSTALL)
        assert "it answers at http://127.0.0.1:19820/metrics" in output, output
        assert "found: 2 x iluvatar Iluvatar BI-V150" in output, output
        assert "skipped:" not in output, output
    with checks.check("where there is SELinux, what was installed gets its labels"):
        program = machine.shell("readlink --canonicalize /opt/device-telemetry/venv").strip()
        assert machine.shell("cat /srv/labelled").strip() == f"-R {program}"
    machine.shell(f"rm {labeller}")
    with checks.check("the service is active, enabled, notified, and runs as its own user"):
        assert machine.show("ActiveState") == "active"
        assert machine.shell("systemctl is-enabled telemetry").strip() == "enabled"
        assert machine.shell(f"stat --format %U /proc/{machine.show('MainPID')}") == "telemetry\n"
    with checks.check("a second run changes nothing and restarts nothing"):
        pid = machine.show("MainPID")
        output = machine.shell(INSTALL)
        assert "nothing was changed" in output, output
        assert machine.show("MainPID") == pid
    with checks.check("the command, its manual page and its completion are where they are looked for"):
        assert machine.shell("telemetry version").startswith("telemetry ")
        machine.shell("test -s /usr/local/share/man/man1/telemetry.1")
        machine.shell("test -s /usr/local/share/bash-completion/completions/telemetry")


def check_upgrade(machine: Machine, checks: Checks) -> None:
    """Check that the new program takes over and the administrator's changes stay."""
    pid = machine.show("MainPID")
    machine.shell(f"echo '# mine' >> {CONFIGURATION}")
    # The same program counts as another version if its wheels differ.
    machine.shell("cd /srv/bundle && touch wheels/zz_extra-1-py3-none-any.whl && sha256sum wheels/*.whl > SHA256SUMS")
    with checks.check("an upgrade restarts the service and keeps the configuration"):
        output = machine.shell(INSTALL)
        assert "installed: telemetry" in output, output
        assert restarted(machine, pid)
        assert machine.shell(f"tail -1 {CONFIGURATION}") == "# mine\n"
        assert len(machine.shell("ls /opt/device-telemetry").split()) == 2
    with checks.check("a service that was disabled stays disabled"):
        machine.shell("systemctl disable --now telemetry")
        assert "it is disabled here" in machine.shell(INSTALL)
        assert machine.fails("systemctl is-enabled telemetry")
        assert machine.show("ActiveState") == "inactive"
    with checks.check("a service that was started anyway is restarted, because its program is replaced"):
        machine.shell("systemctl start telemetry")
        pid = machine.show("MainPID")
        machine.shell("cd /srv/bundle && rm wheels/zz_extra* && sha256sum wheels/*.whl > SHA256SUMS")
        output = machine.shell(INSTALL)
        assert "found: 2 x iluvatar" in output, output
        assert restarted(machine, pid)
        assert machine.fails("systemctl is-enabled telemetry")
        machine.shell("systemctl enable --now telemetry")
    with checks.check("a service that cannot start makes the script fail and say why"):
        machine.shell("mkdir -p /etc/systemd/system/telemetry.service.d")
        machine.shell(
            "printf '[Service]\\nExecStart=\\nExecStart=/bin/false\\n' > /etc/systemd/system/telemetry.service.d/x.conf"
        )
        machine.shell("systemctl daemon-reload; systemctl stop telemetry")
        done = machine.run(INSTALL)
        assert done.returncode == 1
        assert "the service does not start" in done.stderr, done.stdout + done.stderr
        machine.shell("rm -r /etc/systemd/system/telemetry.service.d; systemctl daemon-reload; systemctl reset-failed")
        machine.shell("systemctl start telemetry")


def check_end(machine: Machine, checks: Checks, before: str) -> None:
    with checks.check("--uninstall leaves nothing running, and the configuration where it is"):
        machine.shell(f"{INSTALL} --uninstall")
        assert until(lambda: not scraped(machine, ""))
        assert machine.fails("systemctl cat telemetry")
        machine.shell(f"test -s {CONFIGURATION}; id telemetry")
    with checks.check("--purge leaves the machine as it was, also of a service that failed"):
        machine.shell(INSTALL)
        machine.shell(f"echo 'no_such_key = 1' >> {CONFIGURATION}")
        assert machine.fails("systemctl restart telemetry")
        machine.shell(f"{INSTALL} --purge")
        assert machine.shell("systemctl list-units --all --no-legend '*telemetry*'").strip() == ""
        assert machine.fails("id telemetry")
        assert machine.fails("ls /run/telemetry")
        after = machine.shell(SEEN)
        assert after == before, "\n".join(set(after.split("\n")) ^ set(before.split("\n")))


def run(bundle: Path, trees: Path, suite: str) -> int:
    """Boot, check, and print the result; return 1 if a check failed."""
    checks = Checks()
    with booted(trees, suite, lambda gifts: prepare(bundle, gifts)) as machine:
        machine.shell(f"ln -s {GIFTS}/ixsmi /usr/local/bin/ixsmi")
        machine.shell(f"mkdir /srv/bundle && tar --strip-components=1 -C /srv/bundle -xzf {GIFTS}/bundle.tar.gz")
        before = machine.shell(SEEN)
        checks.run((check_image, check_installation, check_upgrade), machine)
        check_end(machine, checks, before)
    return checks.result()


if __name__ == "__main__":
    sys.exit(main(run, sys.argv[1:]))
