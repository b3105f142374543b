"""Validate a bill of materials against the schema that CycloneDX's Python library includes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Return 1 if the document violates the schema."""
    # Only the environment build/audit has the library, not the environment that checks types.
    schema, validation = (importlib.import_module(f"cyclonedx.{name}") for name in ("schema", "validation.json"))
    validator = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
    error = validator.validate_str(Path(arguments[0]).read_text())
    sys.stdout.write(f"{arguments[0]}: {error or 'conforms to the schema of CycloneDX 1.6'}\n")
    return 1 if error else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
