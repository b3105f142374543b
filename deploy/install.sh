#!/usr/bin/env bash
# Installs device telemetry on this node as a service, upgrades or removes it. Run it again at any time: correct files
# stay untouched. It installs from its own folder, a checkout or an unpacked offline bundle.
set -euo pipefail
umask 022

usage() {
    cat <<'END'
usage: install.sh [--from WHAT] [--python PYTHON] [--dry-run]    install or upgrade
       install.sh --uninstall [--dry-run]    take program and service away; configuration and state stay
       install.sh --purge [--dry-run]        take everything away

  --from WHAT      what pip shall install: device-telemetry==VERSION from the package index, or a wheel;
                   without it: the folder wheels/ beside this script (then no network is needed), or its checkout
  --python PYTHON  the Python to use, 3.10 or later
  --dry-run        say what would be done, and do nothing

Environment: DESTDIR puts everything below another folder and leaves accounts and services alone; pip's own
variables (PIP_INDEX_URL, PIP_CONSTRAINT ...) hold where wheels come from an index.
END
}

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
root=${DESTDIR:-}
app=/opt/device-telemetry
telemetry=$app/venv/bin/telemetry
unit=/etc/systemd/system/telemetry.service
configuration=/etc/telemetry/telemetry.toml
# Vendors' drivers do not contain these Python bindings.
bindings='[moorethreads]'
# Files for other programs, and the paths where those programs look for the files.
links=(
    "bin/telemetry /usr/local/bin/telemetry"
    "share/man/man1/telemetry.1 /usr/local/share/man/man1/telemetry.1"
    "share/bash-completion/completions/telemetry /usr/local/share/bash-completion/completions/telemetry"
    "share/zsh/site-functions/_telemetry /usr/local/share/zsh/site-functions/_telemetry"
    "share/fish/vendor_completions.d/telemetry.fish /usr/local/share/fish/vendor_completions.d/telemetry.fish"
)

action=install
from=
python=
dry_run=
is_first_install=
changed=
scratch=

say() { printf '%s\n' "$*"; }
skip() { say "skipped: $*"; }
fail() { printf 'install.sh: %s\n' "$*" >&2; exit 1; }

# Run a command that changes the system, or only print it in a dry run.
run() {
    changed=yes
    if [ -n "$dry_run" ]; then say "would run: $*"; else "$@"; fi
}
report() { if [ -z "$dry_run" ]; then say "$@"; fi; }

# Succeed if the file exists, or a link with any target.
exists() { [ -e "$root$1" ] || [ -L "$root$1" ]; }
# Run `telemetry`. Below DESTDIR, the Python in the first line is not installed yet, so Python is called directly.
run_telemetry() { "$root$app/venv/bin/python" "$root$telemetry" "$@"; }
systemd_runs() { [ -z "$root" ] && [ -d /run/systemd/system ]; }

read_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --from) from=${2:?--from names a wheel or a requirement}; shift ;;
            --python) python=${2:?--python names a Python}; shift ;;
            --dry-run) dry_run=yes ;;
            --uninstall) action=uninstall ;;
            --purge) action=purge ;;
            -h | --help) usage; exit 0 ;;
            *) usage >&2; exit 64 ;;
        esac
        shift
    done
}

check_node() {
    [ "$(uname -s)" = Linux ] || fail "this is $(uname -s); the daemon reads Linux drivers"
    [ -n "$root" ] || [ "$(id -u)" -eq 0 ] || fail "run it as root: sudo $0"
    case $root in "" | /*) ;; *) fail "DESTDIR=$root must begin with /" ;; esac
    # dpkg-query reports an error for an unknown package, and other systems do not have dpkg-query.
    if [ -z "$root" ] && dpkg-query --show -f '${Status}' device-telemetry 2>/dev/null | grep -q ' installed$'; then
        fail "the Debian package device-telemetry is installed; use apt-get, or remove it first"
    fi
    local pair target
    for pair in "${links[@]}"; do
        target=$root${pair#* }
        case $(readlink -- "$target" || true) in  # only links have a target
            "$app"/*) ;;
            *) if exists "${pair#* }"; then fail "$target is not of this script; move it away first"; fi ;;
        esac
    done
}

# --- installed files --------------------------------------------------------------------------------------------------

check_wheels() {
    if [ -n "$from" ]; then return; fi
    if [ -d "$here/wheels" ]; then
        (cd "$here" && sha256sum --check --quiet SHA256SUMS) || fail "the bundle is damaged; unpack it again"
    elif [ ! -f "$here/../pyproject.toml" ]; then
        fail "no folder wheels/ and no checkout here; say what to install: --from device-telemetry"
    fi
}

# Succeed if the service can run the program with this Python and the available wheels.
is_usable() {
    local prefix tag
    # Errors of an unusable Python are hidden, because another Python may be usable.
    prefix=$("$1" -c 'import sys, venv; assert sys.version_info >= (3, 10); print(sys.base_prefix)' 2>/dev/null) ||
        return 1
    case $prefix in ~root/* | /home/*) [ -n "$root" ] || return 1 ;; esac  # hidden from the service
    # A Python without ensurepip, which installs pip into the venv, is not usable either.
    if [ -n "$from" ] || [ ! -d "$here/wheels" ]; then "$1" -c 'import ensurepip' 2>/dev/null; return; fi
    tag=$("$1" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
    compgen -G "$here/wheels/*-$tag-$tag-*_$(uname -m).whl" >/dev/null
}

choose_python() {
    local candidate
    for candidate in ${python:-python3 /usr/bin/python3 python3.13 python3.12 python3.11 python3.10}; do
        if is_usable "$candidate"; then
            python=$(command -v "$candidate")
            python=$(cd -- "$(dirname -- "$python")" && pwd)/${python##*/}
            return
        fi
    done
    if [ -d "$here/wheels" ] && [ -z "$from" ]; then
        fail "this is $(uname -m), and there is no Python that this bundle has wheels for: $(cd "$here/wheels" &&
            printf '%s\n' *-cp3*-cp3* | sed -E 's/.*-cp3([0-9]+)-cp3.*_(x86_64|aarch64).whl/3.\1 on \2/' |
            sort -uV | paste -sd ,)"
    fi
    fail "no Python 3.10 or later with venv; on Debian: apt-get install python3-venv, else name one: --python"
}

# Set `wheels` to a folder with all required wheels, including that of pip.
gather_wheels() {
    wheels=$here/wheels
    if [ -z "$from" ] && [ -d "$wheels" ]; then return; fi
    wheels=$scratch/wheels
    local requirements=(--constraint "$here/../constraints.txt" "$here/..$bindings")
    if [ -n "$from" ]; then requirements=("$from"); fi
    say "fetching ${requirements[-1]} and what it needs"
    "$python" -m venv "$scratch/pip"
    "$scratch/pip/bin/python" -m pip --disable-pip-version-check wheel --quiet --wheel-dir "$wheels" pip "${requirements[@]}"
}

# Each version has its own folder. An upgrade changes one link, and a failed upgrade changes nothing.
install_program() {
    local matches=("$wheels"/device_telemetry-*.whl) requirement=device-telemetry identity version release
    version=$(basename "${matches[0]}" | cut -d - -f 2)
    identity=$( (cd "$wheels" && sha256sum -- *.whl; "$python" -V; say "$python") | sha256sum | cut -c 1-10)
    release=$app/$version-$identity
    # Before the first installation there is no link, so the program must be installed.
    if [ "$(readlink -- "$root$app/venv" || true)" = "$version-$identity" ] &&
        run_telemetry version >/dev/null 2>&1; then  # a program that does not run is installed again
        say "as it should be: $(run_telemetry version)"
        return
    fi
    if [ -n "$dry_run" ]; then run install version "$version" into "$root$release" with "$python"; return; fi
    changed=yes
    unfinished=$root$release
    rm -rf "$unfinished"
    mkdir -p "$root$app"
    "$python" -m venv --without-pip "$unfinished"
    matches=("$wheels"/pip-*.whl)
    # The user's own wheels may not include the bindings.
    if compgen -G "$wheels/mthreads_ml_py-*.whl" >/dev/null; then requirement=device-telemetry$bindings; fi
    "$unfinished/bin/python" "${matches[0]}/pip" --isolated --disable-pip-version-check install --quiet --no-index \
        --find-links "$wheels" "$requirement==$version" || fail "pip could not install the wheels; nothing was changed"
    # Scripts contain the absolute path of their Python, which must not begin with DESTDIR.
    find "$unfinished/bin" -type f -exec sed -i "1,2s|$root$app/|$app/|" {} +
    # Under SELinux, a service can start only files labelled as programs.
    if [ -z "$root" ] && command -v restorecon >/dev/null; then restorecon -R "$unfinished"; fi
    if [ -e "$root$configuration" ]; then
        "$unfinished/bin/python" "$unfinished/bin/telemetry" config check --config "$root$configuration" >/dev/null ||
            fail "version $version does not take $root$configuration; nothing was changed"
    fi
    ln -sfn "$version-$identity" "$root$app/venv.new"
    mv -T "$root$app/venv.new" "$root$app/venv"
    unfinished=
    say "installed: $(run_telemetry version)"
}

# put SOURCE TARGET: copy a file, unless the target has the same content.
put() {
    if cmp -s "$1" "$root$2"; then return; fi
    run install -D -m 644 "$1" "$root$2"
    report "installed: $root$2"
}

install_links() {
    local pair target
    for pair in "${links[@]}"; do
        target=$root${pair#* }
        if [ -L "$target" ]; then continue; fi
        run mkdir -p "$(dirname "$target")"
        run ln -s "$app/venv/${pair% *}" "$target"
    done
}

install_configuration() {
    if exists "$configuration"; then say "kept: $root$configuration"; return; fi
    put "$here/telemetry.toml" "$configuration"
}

# The unit needs a user and groups. The user joins the group of Ascend's driver if the group exists.
install_accounts() {
    if [ -n "$root" ]; then skip "user and groups, because of DESTDIR"; return; fi
    # If an account with this name existed before, the group may still be missing.
    if ! id telemetry >/dev/null 2>&1 || ! getent group telemetry video render >/dev/null; then
        command -v systemd-sysusers >/dev/null || { skip "user and groups: there is no systemd-sysusers"; return; }
        run systemd-sysusers "$here/systemd/sysusers.d/telemetry.conf"
    fi
    # In a dry run of the first installation there is no user yet.
    if getent group HwHiAiUser >/dev/null && ! id -nG telemetry 2>/dev/null | tr ' ' '\n' | grep -qx HwHiAiUser; then
        run usermod --append --groups HwHiAiUser telemetry
    fi
}

install_unit() {
    exists "$unit" || is_first_install=yes
    sed "s|/usr/bin/env telemetry|$telemetry|" "$here/systemd/telemetry.service" >"$scratch/telemetry.service"
    put "$scratch/telemetry.service" "$unit"
}

# --- the service ------------------------------------------------------------------------------------------------------

# Succeed if the service is enabled, or was started although it is disabled.
should_run() { systemctl is-enabled --quiet telemetry || systemctl is-active --quiet telemetry; }

start() {
    if [ -n "$root" ]; then skip "starting the service, because of DESTDIR"; return; fi
    # In an image that is being built, the service starts when the image boots.
    if [ -n "$is_first_install" ] && command -v systemctl >/dev/null; then run systemctl enable --quiet telemetry; fi
    if ! systemd_runs; then skip "starting the service: systemd does not run here"; return; fi
    if [ -n "$changed" ]; then run systemctl daemon-reload; fi
    if [ -z "$dry_run" ] && ! should_run; then
        skip "starting the service: it is disabled here; to have it: systemctl enable --now telemetry"
        return
    fi
    if [ -z "$changed" ] && systemctl is-active --quiet telemetry; then
        say "as it should be: the service runs"
        return
    fi
    # The restart waits until the daemon is ready.
    run systemctl restart telemetry && return
    journalctl --no-pager -u telemetry -n 20
    fail "the service does not start; see above"
}

verify() {
    if [ -n "$dry_run" ]; then return; fi
    run_telemetry config check --config "$root$configuration" >/dev/null ||
        fail "$root$configuration cannot be used"
    if [ -n "$root" ]; then skip "a scrape, because of DESTDIR"; return; fi
    if ! systemd_runs || ! should_run; then
        skip "a scrape: no service runs; try: $telemetry snapshot"
        return
    fi
    local status served path
    status=$(systemctl show --property StatusText --value telemetry)
    path=$(run_telemetry config show --config "$configuration" | sed -n 's/^telemetry_path = "\(.*\)"$/\1/p')
    served=${status#serving on }
    case $status in
        "serving on unix:"*) skip "a scrape: it is $status" ;;
        "serving on "*) scrape "${served%%,*}" "$path" || fail "no scrape is answered; see: journalctl -u telemetry" ;;
        *) fail "the service says: $status; see: journalctl -u telemetry" ;;
    esac
}

# scrape ADDRESS PATH: request the page as Prometheus does, after each source was polled, and report the result.
scrape() {
    "$root$app/venv/bin/python" -I - "$@" <<'END'
import re, ssl, sys, time, urllib.error, urllib.request

where = re.sub(r"^(0\.0\.0\.0|\[::\])?:(?=\d+$)", "127.0.0.1:", sys.argv[1])
WANTS = {200: "", 401: " and wants a password", 495: " and wants a client's certificate"}
tls = ssl.create_default_context()
tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE  # the client is on the same node
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))


def get(url):
    """Return status and text. The status is 495 if a TLS alert asks for a certificate, 0 if there is no answer."""
    try:
        return 200, opener.open(url, timeout=5).read().decode()
    except urllib.error.HTTPError as error:
        return error.code, str(error)
    except OSError as error:
        alert = re.search("CERTIFICATE_REQUIRED|ALERT_HANDSHAKE_FAILURE", str(error))  # TLS 1.3; TLS 1.2
        return (495 if alert else 0), str(error)


# TLS comes first, because a TLS server answers plain HTTP with an error.
base = next((f"{scheme}://{where}" for scheme in ("https", "http") if get(f"{scheme}://{where}/healthz")[0]), None)
if base is None:
    sys.exit(f"{where}: {get(f'http://{where}/healthz')[1]}; {get(f'https://{where}/healthz')[1]}")
for _ in range(20):
    if get(f"{base}/readyz")[0] != 503:
        break
    time.sleep(1)
status, page = get(base + sys.argv[2])
print(f"it answers at {base}{sys.argv[2]}" + WANTS.get(status, f": {page}"))
devices = re.findall(r'^telemetry_devices{model="(.*?)",vendor="(.*?)"} ([\d.]+)$', page, re.MULTILINE)
for model, vendor, count in devices:
    print(f"found: {float(count):g} x {vendor} {model}")
if status == 200 and not devices:
    print("found no accelerator; `telemetry doctor` shows which sources were read")
sys.exit(status not in WANTS)
END
}

# Remove earlier versions, which the previous daemon may have needed until the restart.
remove_old_versions() {
    local current folder
    current=$(readlink -- "$root$app/venv" || true)  # in a dry run of the first installation there is no link yet
    for folder in "$root$app"/*-*; do
        if [ -d "$folder" ] && [ "${folder##*/}" != "$current" ]; then run rm -rf "$folder"; fi
    done
}

install_all() {
    check_wheels
    choose_python
    if [ -n "$dry_run" ] && { [ -n "$from" ] || [ ! -d "$here/wheels" ]; }; then
        run fetch and install "${from:-$(cd "$here/.." && pwd)}" with "$python"
    else
        gather_wheels
        install_program
    fi
    install_links
    install_configuration
    install_accounts
    install_unit
    start
    verify
    remove_old_versions
    say "to undo: $here/install.sh --uninstall (keeps configuration and state) or --purge (keeps nothing)"
}

# --- removal ----------------------------------------------------------------------------------------------------------

remove() { if exists "$1"; then run rm -rf "$root$1"; report "removed: $root$1"; fi; }

uninstall() {
    local pair
    if systemd_runs && [ -e "$unit" ]; then run systemctl disable --now --quiet telemetry; fi
    remove "$unit"
    remove /etc/systemd/system/multi-user.target.wants/telemetry.service
    if systemd_runs && [ -n "$changed" ]; then run systemctl daemon-reload; fi
    # Otherwise a failed service would be listed until the next boot.
    if systemd_runs && systemctl is-failed --quiet telemetry; then run systemctl reset-failed telemetry; fi
    for pair in "${links[@]}"; do remove "${pair#* }"; done
    remove "$app"
    if [ -n "$dry_run" ]; then return; fi
    # Remove empty folders, but no folders that every system has.
    remove_empty man man1
    remove_empty . bash-completion/completions
    remove_empty . zsh/site-functions
    remove_empty . fish/vendor_completions.d
}

remove_empty() { # remove_empty SHARE PATH: remove the empty folders of a path below a folder of /usr/local/share
    (cd "$root/usr/local/share/$1" && rmdir -p "$2") 2>/dev/null || true  # folders with files of other packages stay
}

purge() {
    local path
    for path in /etc/systemd/system/telemetry.service.d /etc/telemetry /var/lib/telemetry /run/telemetry; do
        remove "$path"
    done
    # An account with this name and another home existed before, so it is not removed.
    if [ -z "$root" ] && [ "$(getent passwd telemetry | cut -d : -f 6)" = /var/lib/telemetry ]; then
        run userdel telemetry || fail "the user telemetry could not be removed; see: ps -u telemetry"
        report "removed: the user telemetry; the groups video and render stay, because drivers use them"
    fi
}

finish() {
    if [ -n "${unfinished:-}" ]; then rm -rf "$unfinished"; fi
    rm -rf "$scratch"
}

read_arguments "$@"
check_node
scratch=$(mktemp -d)
unfinished=
trap finish EXIT
case $action in
    install) install_all ;;
    uninstall) uninstall; say "kept: $root/etc/telemetry and $root/var/lib/telemetry; --purge takes them, too" ;;
    purge) uninstall; purge ;;
esac
if [ -z "$changed" ]; then say "nothing was changed"; fi
