"""The real profiles: their facts are in `real.txt`, which `--update-golden` writes, and each has a screen."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kits.captures import ROOT, shared_folder
from profiles.facts_text import of_facts
from profiles.made_ranks import answered
from telemetry_exporters.terminal.style import Colour
from telemetry_exporters.text import display_width
from telemetry_profile.files.read_files import Outcome, find_files, installed_formats, read_file
from telemetry_profile.format_contract import Facts
from telemetry_profile.profile_document import render
from telemetry_profile.profile_screen import LINES, render_screen
from telemetry_profile.verdict.combine import FileFacts, combine

VALIDATOR = jsonschema.Draft202012Validator(json.loads((ROOT / "docs/profile.schema.json").read_text()))
GOLDEN = Path(__file__).parent / "real.txt"
pytestmark = pytest.mark.needs("captures")


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    folder = shared_folder()
    assert folder is not None
    files = [found for found in find_files([str(folder / "profiles")]) if not found.path.endswith(".md")]
    return [read_file(found, installed_formats()) for found in files]


def test_facts_of_real_profiles(outcomes: list[Outcome], assert_golden: Callable[[Path, str], None]) -> None:
    assert len(outcomes) > 60
    assert_golden(GOLDEN, "".join(f"{line}\n" for outcome in outcomes for line in lines_of(outcome)))


def lines_of(outcome: Outcome) -> Iterator[str]:
    yield outcome.file.display_name
    if outcome.facts is None:
        yield f"  is_recognised={outcome.is_recognised} {outcome.error.partition(';')[0][:80]}"
    else:
        yield from of_facts(outcome.facts)


def document(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    files = [
        FileFacts(outcome.file.folders, outcome.file.display_name, outcome.facts)
        for outcome in outcomes
        if outcome.facts is not None
    ]
    found: dict[str, Any] = json.loads(render(answered(combine(files))))
    VALIDATOR.validate(found)
    return found


def test_each_real_profile_has_a_screen_that_fits_and_a_document(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        if outcome.facts is None:
            continue
        answer = answered(combine([FileFacts(outcome.file.folders, outcome.file.display_name, outcome.facts)]))
        for width in (80, 200):
            lines = render_screen(answer, width, Colour.NEVER).splitlines()
            assert 0 < len(lines) <= LINES, outcome.file.display_name
            assert max(map(display_width, lines)) <= width, outcome.file.display_name
        assert document([outcome])["schema"] == "telemetry.profile/1"


@pytest.mark.parametrize(
    ("folder", "straggler"), [("torch/pair128", 1), ("mindspore/cluster-pipeline", None), ("ascend_pytorch/cluster", 1)]
)
def test_the_straggler_of_real_ranks(outcomes: list[Outcome], folder: str, straggler: int | None) -> None:
    files = [outcome for outcome in outcomes if outcome.file.display_name.startswith(folder)]
    found = document(files)["ranks"]["straggler"]
    assert (found and found["rank"]) == straggler


def test_data_loading_is_named(outcomes: list[Outcome]) -> None:
    (file,) = [
        outcome for outcome in outcomes if outcome.file.display_name == "torch/v100-resnet50-workers0-one-step.json.gz"
    ]
    verdict = document([file])["verdict"]
    assert verdict["cause"] == "data"
    assert "data loader takes 68.8 ms" in verdict["text"]


def test_the_files_of_a_rank_are_one_card(outcomes: list[Outcome]) -> None:
    files = [outcome for outcome in outcomes if outcome.file.display_name.startswith("mindspore/run_2")]
    assert [device["rank"] for device in document(files)["devices"]] == [1]


def facts_of(outcomes: list[Outcome], name: str) -> Facts:
    (found,) = [outcome.facts for outcome in outcomes if outcome.file.display_name == name]
    assert found is not None
    return found


# The figures of HolisticTraceAnalysis 0.5.0 for the first step, or for the whole trace (microseconds): computation, and other work
# without computation at the same time. It drops fractions, and counts a step from the first kernel to the last, with less idle time.
HOLISTIC = {
    "torch/pair128/rank-0.json.gz": (106_252, 172_428),
    "torch/pair128/rank-1.json.gz": (135_548, 136_455),
    "torch/v100-resnet50-workers0-one-step.json.gz": (97_505, 2_036),
}


def test_split_equals_that_of_another_analyser(outcomes: list[Outcome]) -> None:
    for name, expected in HOLISTIC.items():
        (device,) = facts_of(outcomes, name).devices
        # HolisticTraceAnalysis counts the whole trace if there is only one step.
        first = device.steps[0].split if len(device.steps) > 1 else device.split
        exposed = (first.exposed_communication_ns or 0) + (first.exposed_copy_ns or 0)
        assert ((first.compute_ns or 0) // 1000, exposed // 1000) == expected


def test_database_and_csv_of_one_run_of_hipprof_agree(outcomes: list[Outcome]) -> None:
    folder = "hipprof/results_hiptrace/vector_add_trace"
    (table,), (database,) = (facts_of(outcomes, folder + end).devices for end in (".hipkernel.csv", ".db"))
    found = {(kernel.name, kernel.calls, kernel.total_ns) for kernel in table.kernels}
    assert found
    assert found <= {(kernel.name, kernel.calls, kernel.total_ns) for kernel in database.kernels}
