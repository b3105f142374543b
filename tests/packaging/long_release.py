"""Two users build the whole release: every file has the same bytes. Needs a package index."""

import hashlib
from pathlib import Path

import pytest

from kits.release import BUILDERS, differences, repository

KINDS = (".cdx.json", ".deb", ".tgz", ".whl", "-offline-", "device_telemetry-")


@pytest.mark.timeout(1800)
@pytest.mark.needs("dpkg-deb")
def test_two_releases_of_a_commit_are_the_same_bytes(tmp_path: Path) -> None:
    origin = repository(tmp_path / "origin")
    built = []
    for builder in BUILDERS:
        checkout = builder.clone(origin, tmp_path)
        builder.run(checkout, [".ci/release.sh"])
        built.append(checkout / "dist")
    names = [file.name for file in built[0].iterdir()]
    assert [kind for kind in KINDS if not any(kind in name for name in names)] == []
    assert len(names) == 7
    assert list(differences(*built)) == []
    sums = dict(reversed(line.split("  ")) for line in (built[0] / "SHA256SUMS").read_text().splitlines())
    files = [file for file in built[0].iterdir() if file.name != "SHA256SUMS"]
    assert sums == {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
