"""The JSON Schemas in docs/ match the classes of the documents."""

from kits.captures import ROOT
from kits.scripts import script_module

SCHEMAS = script_module("document_schemas")


def test_every_document_has_a_derived_schema() -> None:
    written = {path.name for path in (ROOT / "docs").glob("*.schema.json")}
    assert written == {name.removeprefix("docs/") for name in SCHEMAS.DOCUMENTS}
