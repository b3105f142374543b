"""Write JSON schemas in kubeconform's layout: for Kubernetes' built-in kinds, and for each version of the custom resources."""

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
    result = {key: strict(value) for key, value in schema.items()}
    if isinstance(result.get("properties"), dict) and result.get("type") == "object":
        result.setdefault("additionalProperties", False)
    return result


def write_custom_resources(source: Path, target: Path) -> None:
    """Write a schema file for each kind and version of the custom resources."""
    for path in sorted(source.glob("*-crd.json")):
        spec = json.loads(path.read_text("utf-8"))["spec"]
        kind, group = spec["names"]["kind"].lower(), spec["group"].partition(".")[0]
        for version in spec["versions"]:
            schema = strict(version["schema"]["openAPIV3Schema"])
            (target / f"{kind}-{group}-{version['name']}.json").write_text(json.dumps(schema))


def write_built_in_kinds(source: Path, target: Path) -> None:
    """Write the schemas of one Kubernetes version. Remove ids, which would turn references into network addresses."""
    target.mkdir()
    for path in source.glob("*.json"):
        schema = json.loads(path.read_text("utf-8").replace('"/api/_definitions.json#', '"_definitions.json#'))
        schema.pop("$id", None)
        (target / path.name).write_text(json.dumps(schema))


def main(crds: Path, kubernetes: Path, target: Path, versions: list[str]) -> None:
    """Write all schemas into `target`, with a folder for each Kubernetes version."""
    target.mkdir()
    write_custom_resources(crds, target)
    for version in versions:
        write_built_in_kinds(kubernetes / f"v{version}-local-strict", target / f"v{version}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
