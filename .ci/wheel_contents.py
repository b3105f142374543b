"""Says what a wheel lacks of the packages, and what it has that it should not have."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOTS = ("daemon", "exporters", "parsers")


def expected(checkout: Path) -> set[str]:
    """The names that the packages' files have in a wheel, and those of what is installed beside them."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text("utf-8"))
    beside = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    return set(beside.values()) | {
        str(file.relative_to(checkout / root))
        for root in ROOTS
        for file in (checkout / root).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def main(arguments: list[str]) -> int:
    """Compare one wheel with the checkout that the script lies in."""
    wanted = expected(Path(__file__).resolve().parent.parent)
    with zipfile.ZipFile(arguments[0]) as wheel:
        found = {name.partition(".data/data/")[2] or name for name in wheel.namelist() if ".dist-info/" not in name}
    complaints = [f"the wheel lacks {name}" for name in sorted(wanted - found)]
    complaints += [f"the wheel has {name}, which is no file of the packages" for name in sorted(found - wanted)]
    sys.stdout.write("".join(f"{line}\n" for line in complaints) or f"the wheel has all {len(found)} files\n")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
