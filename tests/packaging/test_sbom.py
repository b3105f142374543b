"""The bill of materials lists all dependencies of the wheel; a failed audit is not reported as a success."""

import base64
import hashlib
import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from kits.captures import ROOT
from kits.scripts import script_module

sbom, audit_answer = script_module("sbom"), script_module("audit_answer")


@pytest.mark.installed
def test_the_bill_names_every_dependency_with_version_and_licence_and_what_needs_what(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, ROOT / ".ci/sbom.py", tmp_path / "sbom"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((tmp_path / "sbom").read_text())
    components = {part["name"]: part for part in document["components"]}
    required = [Requirement(text) for text in metadata.requires("device-telemetry") or ()]
    direct = {sbom.normalize(r.name) for r in required if r.marker is None or r.marker.evaluate({"extra": ""})}
    assert len(direct) >= 7
    assert direct <= components.keys()
    for name, part in components.items():
        assert part["version"] == metadata.version(name)
        expression = next(entry["expression"] for entry in part["licenses"])
        assert sbom.ALLOWED.issuperset(expression.split(" AND "))
        assert part["purl"] == f"pkg:pypi/{name}@{part['version']}"
    assert not {"pytest", "hypothesis", "mypy", "ruff"} & components.keys()

    root = document["metadata"]["component"]["bom-ref"]
    references = {root, *(part["bom-ref"] for part in document["components"])}
    graph = {item["ref"]: item["dependsOn"] for item in document["dependencies"]}
    assert graph.keys() == references
    assert {name for needed in graph.values() for name in needed} == references - {root}


class Distribution(metadata.Distribution):
    def __init__(self, folder: Path, **headers: str) -> None:
        self.folder = folder
        lines = {"Metadata-Version": "2.1", "Name": "acme", "Version": "1.0", **headers}
        self._texts = {"METADATA": "".join(f"{key.replace('_', '-')}: {text}\n" for key, text in lines.items())}
        (folder / "acme.py").write_text("1\n")
        digest = base64.urlsafe_b64encode(hashlib.sha256(b"1\n").digest()).rstrip(b"=").decode()
        self._texts["RECORD"] = f"acme.py,sha256={digest},2\n"

    def read_text(self, filename: str) -> str | None:
        return self._texts.get(filename)

    def locate_file(self, path: Any) -> Path:
        return self.folder / str(path)


@pytest.mark.parametrize(
    ("headers", "constraints", "content", "says"),
    [
        pytest.param({"License": "MIT"}, "acme==1.0\n", "1\n", [], id="good"),
        pytest.param({"License": "MIT"}, "acme==1.1\n", "1\n", ["not the version"], id="another version"),
        pytest.param({"License": "MIT"}, "", "1\n", ["not the version"], id="not pinned"),
        pytest.param({"License_Expression": "GPL-3.0-only"}, "acme==1.0\n", "1\n", ["GPL-3.0-only"], id="copyleft"),
        pytest.param({"License": "MIT"}, "acme==1.0\n", "2\n", ["acme.py is not the file"], id="changed"),
        pytest.param({"License": "MIT"}, "acme==1.0\n", None, ["acme.py is not the file"], id="gone"),
    ],
)
def test_dependency_that_must_not_be_shipped_is_reported(
    tmp_path: Path, headers: dict[str, str], constraints: str, content: str | None, says: list[str]
) -> None:
    package = Distribution(tmp_path, **headers)
    if content is None:
        (tmp_path / "acme.py").unlink()
    else:
        (tmp_path / "acme.py").write_text(content)
    complaints = list(sbom.complaints({"acme": package}, constraints))
    assert len(complaints) == len(says), complaints
    assert all(words in line for words, line in zip(says, complaints, strict=True))


def answer(*packages: dict[str, Any]) -> str:
    return json.dumps({"dependencies": list(packages), "fixes": []})


CLEAN = {"name": "h11", "version": "0.16.0", "vulns": []}
BAD = {"name": "h11", "version": "0.13.0", "vulns": [{"id": "PYSEC-2025-1"}]}
SKIPPED = {"name": "psutil", "skip_reason": "Dependency not found"}


@pytest.mark.parametrize(
    ("text", "asked", "status", "says"),
    [
        pytest.param(answer(CLEAN), 1, 0, "1 packages were looked up", id="clear"),
        pytest.param(answer(CLEAN, BAD), 2, 1, "h11 0.13.0: PYSEC-2025-1", id="vulnerable"),
        pytest.param(answer(CLEAN, SKIPPED), 2, 2, "NOT AUDITED: 1 of 2", id="one skipped"),
        pytest.param(answer(CLEAN), 2, 2, "NOT AUDITED: 1 of 2", id="one forgotten"),
        pytest.param("", 12, 2, "NOT AUDITED: pip-audit printed no result", id="no answer"),
    ],
)
def test_audit_without_an_answer_is_no_success(text: str, asked: int, status: int, says: str) -> None:
    verdict = audit_answer.verdict(text, asked)
    assert verdict.status == status
    assert says in "\n".join(verdict.lines)
