"""Writes the package's copyright file: the project's own licence, and those of the distributions bundled with it."""

from __future__ import annotations

import sys
from importlib.metadata import Distribution, distributions

OWN = "device-telemetry"
HEAD = """\
device-telemetry is licensed under the Apache License, Version 2.0, to be
distribution in /usr/share/common-licenses/Apache-2.0.

Copyright 2026 the authors of device-telemetry

/opt/device-telemetry holds these distributions of other authors, too. The
folder NAME-VERSION.dist-info of each, beside its code, has the full text of
its licence and the names of its authors.

"""


def licence(distribution: Distribution) -> str:
    """Return the name of the licence from the metadata of the distribution."""
    names = distribution.metadata.get_all("License-Expression", [])
    names = names or [line for line in distribution.metadata.get_all("License", []) if "\n" not in line]
    classifiers = [text for text in distribution.metadata.get_all("Classifier", []) if text.startswith("License :: ")]
    return next(iter([*names, *(text.rpartition(" :: ")[2] for text in classifiers)]), "see its folder")


def main() -> None:
    """Print the copyright file for the distributions that this Python has installed."""
    others = {distribution.name: distribution for distribution in distributions() if distribution.name != OWN}
    sys.stdout.write(HEAD)
    for name, distribution in sorted(others.items(), key=lambda item: item[0].lower()):
        sys.stdout.write(f"{name} {distribution.version}: {licence(distribution)}\n")


if __name__ == "__main__":
    main()
