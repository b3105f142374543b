"""The JSON Schemas in docs/ are those of the classes that documents are written from."""

import json

import jsonschema
import pytest

from kits.captures import ROOT
from kits.scripts import script_module

MAKER = script_module("document_schemas")


@pytest.mark.parametrize("name", MAKER.DOCUMENTS)
def test_a_schema_is_that_of_the_classes(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert text == dict(MAKER.files())[name](), "run: make docs"
    jsonschema.Draft202012Validator.check_schema(json.loads(text))


def test_every_document_has_a_derived_schema() -> None:
    written = {path.name for path in (ROOT / "docs").glob("*.schema.json")}
    assert written == {name.removeprefix("docs/") for name in MAKER.DOCUMENTS}
