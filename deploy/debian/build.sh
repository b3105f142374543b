#!/usr/bin/env bash
# Builds the Debian package from this checkout into build/deb, for the Debian release of this machine. The package contains
# a virtual environment for that release's python3 with all dependencies, so nodes need neither a network nor pip.
# NODE_PYTHON (default /usr/bin/python3) is the nodes' Python; DEB_REVISION (default 1) the package's part of the version.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
umask 022

python=${NODE_PYTHON:-/usr/bin/python3}
revision=${DEB_REVISION:-1}
home=/opt/device-telemetry
output=build/deb
export PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1
# The same checkout produces the same package.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -c safe.directory='*' log -1 --format=%ct)}
export SOURCE_DATE_EPOCH PYTHONHASHSEED=0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

fail() {
    echo "make deb: $*" >&2
    exit 1
}

put() { # put MODE FROM TO: add a file to the package, and create its folders
    install -D -m "$1" "$2" "$root$3"
}

put_gzipped() { # put_gzipped TO: add the compressed standard input, with the same bytes each time
    install -d "$root$(dirname "$1")"
    gzip --best --no-name >"$root$1"
}

check_tools() {
    command -v dpkg-deb >/dev/null || fail "no dpkg-deb; this builds on Debian and its kin"
    [ -x "$python" ] || fail "$python is not there: apt-get install python3"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || fail "$python is older than Python 3.10"
    "$python" -c 'import ensurepip' 2>/dev/null || fail "$python has no ensurepip: apt-get install python3-venv"
}

build_environment() { # build the virtual environment at the path where it will be installed
    # A separate pip, because older ones support neither --python nor constraints for build requirements.
    "$python" -m venv "$work/tools"
    local pip=("$work/tools/bin/python" -m pip)
    "${pip[@]}" install --quiet 'pip>=25.3'
    "${pip[@]}" wheel --quiet --no-deps --wheel-dir "$work/wheel" .
    local wheel=("$work"/wheel/*.whl)
    "$python" -m venv --without-pip "$root$home"
    # Vendors' drivers do not contain these bindings.
    "${pip[@]}" --python "$root$home/bin/python" install --quiet --no-compile --only-binary :all: "${wheel[0]}[moorethreads]"
    # Remove files with paths of the build machine, and unused files.
    rm -f "$root$home"/bin/{activate*,Activate*} "$root$home"/lib/python*/site-packages/device_telemetry-*/direct_url.json
    rm -rf "$root$home"/{include,share}
    find "$root$home/bin" -type f ! -name telemetry -delete
    sed -i "1s|$root||" "$root$home/bin/telemetry"
    sed -i '/^command = /d' "$root$home/pyvenv.cfg"
    sed -i -e '\|^\.\./|d' -e '/direct_url\.json,/d' "$root$home"/lib/python*/site-packages/device_telemetry-*/RECORD
    # The service may not write bytecode here.
    "$root$home/bin/python" -m compileall -q --invalidation-mode unchecked-hash -s "$root" -p / "$root$home/lib"
    if grep -rlF "$work" "$root"; then fail "these files know where they were built"; fi
}

add_files() {
    install -d "$root/usr/bin"
    ln -s "$home/bin/telemetry" "$root/usr/bin/telemetry"
    put 644 deploy/telemetry.toml /etc/telemetry/telemetry.toml
    put 644 deploy/systemd/telemetry.service /usr/lib/systemd/system/telemetry.service
    put 644 deploy/systemd/sysusers.d/telemetry.conf /usr/lib/sysusers.d/telemetry.conf
    put 644 deploy/debian/lintian-overrides /usr/share/lintian/overrides/device-telemetry
    put 755 deploy/check/health-check.sh /usr/lib/telemetry/health-check.sh
    local file
    for file in deploy/systemd/drop-ins/*.conf; do
        put 644 "$file" "/usr/share/doc/device-telemetry/examples/telemetry.service.d/${file##*/}"
    done
    for file in deploy/slurm/* deploy/pbs/* deploy/flux/* deploy/check/*; do
        put 644 "$file" "/usr/share/doc/device-telemetry/examples/${file#deploy/}"
    done
    add_optional daemon/telemetry_daemon/completion/telemetry.bash /usr/share/bash-completion/completions/telemetry
    add_optional daemon/telemetry_daemon/completion/_telemetry /usr/share/zsh/vendor-completions/_telemetry
    add_optional daemon/telemetry_daemon/completion/telemetry.fish /usr/share/fish/vendor_completions.d/telemetry.fish
    if [ -f deploy/man/telemetry.1 ]; then put_gzipped /usr/share/man/man1/telemetry.1.gz <deploy/man/telemetry.1; fi
}

add_optional() { # add_optional FROM TO: add a generated file if the checkout has it
    if [ -f "$1" ]; then put 644 "$1" "$2"; fi
}

add_documents() {
    local doc=/usr/share/doc/device-telemetry
    "$root$home/bin/python" -I deploy/debian/copyright.py >"$root$doc/copyright"
    # Links to pages that are not installed become plain names.
    local page
    for page in alerts troubleshooting; do
        sed -E -e 's/\]\((alerts|troubleshooting)\.md/](=\1.md/g' \
            -e 's/\[([^]]*)\]\(([a-z.-]+\.(md|json)[^)]*)\)/\1 (docs\/\2)/g' -e 's/\]\(=/](/g' \
            "docs/$page.md" >"$root$doc/$page.md"
        chmod 644 "$root$doc/$page.md"
    done
    put_gzipped "$doc/changelog.gz" <CHANGELOG.md
    put_gzipped "$doc/changelog.Debian.gz" <<EOF
device-telemetry ($version) unstable; urgency=medium

  * Release $release, packaged for Python $python_minor.
    See changelog.gz for what is new in it.

 -- $maintainer  $(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")
EOF
}

installed_kib() { # counted as dpkg-gencontrol does, independent of the file system
    find "$root" ! -path "$root/DEBIAN*" -printf '%y %s\n' |
        awk '$1 == "f" { sum += int(($2 + 1023) / 1024) } $1 != "f" { sum += 1 } END { print sum }'
}

add_control() {
    install -d "$root/DEBIAN"
    install -m 755 deploy/debian/{preinst,postinst,prerm,postrm} "$root/DEBIAN/"
    echo /etc/telemetry/telemetry.toml >"$root/DEBIAN/conffiles"
    (cd "$root" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
    sed -e "s|@VERSION@|$version|" -e "s|@ARCHITECTURE@|$architecture|" -e "s|@MAINTAINER@|$maintainer|" \
        -e "s|@SIZE@|$(installed_kib)|" \
        -e "s|@PYTHON@|$python_minor|" -e "s|@NEXT_PYTHON@|3.$((${python_minor#3.} + 1))|" \
        deploy/debian/control.in >"$root/DEBIAN/control"
}

check_tools
architecture=$(dpkg --print-architecture)
python_minor=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
# In Debian's order, 1.0~rc1 comes before 1.0.
release=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' daemon/telemetry_daemon/version.py)
version=$(sed -E 's/\.?(a|b|rc|dev)([0-9]+)$/~\1\2/' <<<"$release")-$revision+py$python_minor
maintainer="${DEBFULLNAME:-device telemetry} <${DEBEMAIL:-root@localhost}>"
build_environment
add_files
add_documents
add_control
mkdir -p "$output"
package=$output/device-telemetry_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
"$python" -I deploy/debian/without_opt.py "$package"
echo "$package"
