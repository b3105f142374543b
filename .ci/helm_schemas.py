"""Write JSON schemas in kubeconform's layout: of Kubernetes' own kinds, and of each version of the custom resources."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def strict(schema: Any) -> Any:
    """Return the schema with unknown properties forbidden wherever an object lists its properties."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: strict(value) for key, value in schema.items()}
    closed = isinstance(inner.get("properties"), dict) and inner.get("type") == "object"
    return {**inner, "additionalProperties": False} if closed and "additionalProperties" not in inner else inner


def custom_resources(source: Path, target: Path) -> None:
    """Write one file for each kind and version."""
    for path in sorted(source.glob("*-crd.json")):
        spec = json.loads(path.read_text("utf-8"))["spec"]
        kind, group = spec["names"]["kind"].lower(), spec["group"].partition(".")[0]
        for version in spec["versions"]:
            schema = strict(version["schema"]["openAPIV3Schema"])
            (target / f"{kind}-{group}-{version['name']}.json").write_text(json.dumps(schema))


def own_kinds(source: Path, target: Path) -> None:
    """Write the files of one Kubernetes version. Ids are removed, because they turn references into network addresses."""
    target.mkdir()
    for path in source.glob("*.json"):
        schema = json.loads(path.read_text("utf-8").replace('"/api/_definitions.json#', '"_definitions.json#'))
        schema.pop("$id", None)
        (target / path.name).write_text(json.dumps(schema))


def main(crds: Path, kubernetes: Path, target: Path, versions: list[str]) -> None:
    """Write all schemas into `target`, with a folder for each Kubernetes version."""
    target.mkdir()
    custom_resources(crds, target)
    for version in versions:
        own_kinds(kubernetes / f"v{version}-local-strict", target / f"v{version}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
