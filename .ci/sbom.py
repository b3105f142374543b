"""The bill of materials of the wheel's runtime dependencies, in CycloneDX, and the rules that each dependency must meet."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

OURS = "device-telemetry"
# These licences require only attribution.
ALLOWED = frozenset({"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "PSF-2.0"})
# Maps names that older packages use to SPDX expressions.
_LICENCES_BY_OLD_NAME: Mapping[str, str] = {
    "MIT": "MIT",
    "MIT License": "MIT",
    "The MIT License (MIT)": "MIT",
    "BSD-3-Clause": "BSD-3-Clause",
    "Apache-2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
}
# The metadata of nvidia-ml-py say only "BSD", but pynvml.py contains the 3-clause licence.
_LICENCES_BY_PACKAGE: Mapping[str, str] = {"nvidia-ml-py": "BSD-3-Clause"}

Find = Callable[[str], metadata.Distribution]


def normalize(name: str) -> str:
    """Normalize the name of a distribution as PEP 503 prescribes."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements_of(distribution: metadata.Distribution) -> Iterator[str]:
    """Yield the names of the distributions that this one needs on this platform, without extras."""
    for text in distribution.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield normalize(requirement.name)


def all_requirements(root: str, find: Find = metadata.distribution) -> dict[str, metadata.Distribution]:
    """Return a distribution and all its direct and indirect dependencies by name."""
    distributions: dict[str, metadata.Distribution] = {}
    pending = [normalize(root)]
    while pending:
        name = pending.pop()
        if name not in distributions:
            distributions[name] = find(name)
            pending.extend(requirements_of(distributions[name]))
    return dict(sorted(distributions.items()))


def licence(distribution: metadata.Distribution) -> str:
    """Return the SPDX expression of the licence, or the text of the metadata if no expression is known."""
    stated = _metadata_text(distribution, "License-Expression") or _metadata_text(distribution, "License")
    return _LICENCES_BY_PACKAGE.get(normalize(distribution.metadata["Name"])) or _LICENCES_BY_OLD_NAME.get(
        stated.partition("\n")[0], stated or "unknown"
    )


def _metadata_text(distribution: metadata.Distribution, key: str) -> str:
    return distribution.metadata[key].strip() if key in distribution.metadata else ""


def complaints(parts: Mapping[str, metadata.Distribution], constraints: str) -> Iterator[str]:
    """Yield the reasons against shipping these packages: an unpinned version, a licence that is not allowed, or changed files."""
    pins = set(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", constraints, re.MULTILINE))
    pinned = {(normalize(name), version) for name, version in pins}
    for name, distribution in parts.items():
        if name == OURS:
            continue
        if (name, distribution.version) not in pinned:
            yield f"{name} {distribution.version} is not the version that constraints.txt pins"
        # If several licences apply together, each licence must be allowed.
        if not ALLOWED.issuperset(licence(distribution).split(" AND ")):
            yield f"{name} is under {licence(distribution)!r}, which is not one of {', '.join(sorted(ALLOWED))}"
        for file in changed_files(distribution):
            yield f"{name}: {file} is not the file that was installed"


def changed_files(distribution: metadata.Distribution) -> Iterator[str]:
    """Yield the files whose content matches no RECORD entry of that path, in this or in another package."""
    digests: dict[str, set[str]] = {}
    for other in metadata.distributions():
        for file, _, digest in _record_entries(other):
            digests.setdefault(file, set()).add(digest)
    for file, algorithm, digest in _record_entries(distribution):
        path = Path(str(distribution.locate_file(file)))
        actual = hashlib.new(algorithm, path.read_bytes()).digest() if path.is_file() else b""
        # The packages for NVIDIA's and Moore Threads' cards both install an example.py, so one is overwritten.
        if base64.urlsafe_b64encode(actual).rstrip(b"=").decode() not in {digest, *digests.get(file, ())}:
            yield file


def _record_entries(distribution: metadata.Distribution) -> Iterator[tuple[str, str, str]]:
    """Yield file, algorithm and digest of each RECORD line with a digest. Since Python 3.12, `files` omits missing files."""
    for file, hash_text, _ in csv.reader((distribution.read_text("RECORD") or "").splitlines()):
        algorithm, _, digest = hash_text.partition("=")
        if digest:
            yield file, algorithm, digest


def document(parts: Mapping[str, metadata.Distribution]) -> dict[str, Any]:
    """Return the bill of materials (CycloneDX 1.6). The same parts give the same document."""
    components = {name: _component(name, distribution) for name, distribution in parts.items()}
    ours = components.pop(OURS)
    seed = json.dumps(components, sort_keys=True) + json.dumps(ours, sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, seed)}",
        "version": 1,
        "metadata": {
            "component": {**ours, "type": "application"},
            "properties": [{"name": "python_version", "value": f"{sys.version_info.major}.{sys.version_info.minor}"}],
        },
        "components": list(components.values()),
        "dependencies": [
            {
                "ref": _reference(name, distribution),
                "dependsOn": [_reference(other, parts[other]) for other in _direct_requirements(distribution)],
            }
            for name, distribution in parts.items()
        ],
    }


def _direct_requirements(distribution: metadata.Distribution) -> list[str]:
    return sorted(set(requirements_of(distribution)))


def _reference(name: str, distribution: metadata.Distribution) -> str:
    return f"pkg:pypi/{name}@{distribution.version}"


def _component(name: str, distribution: metadata.Distribution) -> dict[str, Any]:
    reference = _reference(name, distribution)
    return {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": distribution.version,
        "description": _metadata_text(distribution, "Summary"),
        "licenses": [{"expression": licence(distribution)}],
        "purl": reference,
    }


def main(arguments: list[str]) -> int:
    """Write the bill of materials, and a file with its packages as pinned requirements. Return 1 if there are complaints."""
    target = Path(arguments[0])
    parts = all_requirements(OURS)
    problems = list(complaints(parts, (Path(__file__).resolve().parent.parent / "constraints.txt").read_text()))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document(parts), indent=2) + "\n", encoding="utf-8")
    pins = (f"{name}=={part.version}\n" for name, part in parts.items() if name != OURS)
    target.with_suffix(".requirements.txt").write_text("".join(pins), encoding="utf-8")
    for line in problems:
        sys.stdout.write(f"{line}\n")
    files = sum(len(part.files or ()) for part in parts.values())
    sys.stdout.write(f"{target}: {len(parts) - 1} dependencies, {files} files looked at, {len(problems)} complaints\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
