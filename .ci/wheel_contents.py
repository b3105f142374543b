"""Report the files that are missing from a wheel, and the files that do not belong in it."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOTS = ("daemon", "exporters", "parsers")


def expected_files(checkout: Path) -> set[str]:
    """Return the names that the packages' files and the other installed files have in a wheel."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text("utf-8"))
    shared_data = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    return set(shared_data.values()) | {
        str(file.relative_to(checkout / root))
        for root in ROOTS
        for file in (checkout / root).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def main(arguments: list[str]) -> int:
    """Compare one wheel with the checkout that contains this script. Return 1 if they differ."""
    wanted = expected_files(Path(__file__).resolve().parent.parent)
    with zipfile.ZipFile(arguments[0]) as wheel:
        names = {name.partition(".data/data/")[2] or name for name in wheel.namelist() if ".dist-info/" not in name}
    complaints = [f"{name} is missing from the wheel" for name in sorted(wanted - names)]
    complaints += [f"{name} is in the wheel, but is not a file of the packages" for name in sorted(names - wanted)]
    sys.stdout.write("".join(f"{line}\n" for line in complaints) or f"the wheel has all {len(names)} files\n")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
