"""A line, cell or end is lost from every capture: no number changes or disappears silently. A fixed sample."""

from itertools import islice

import pytest

from contract.losses.loss import Sample, findings, losses, own_samples, real_samples
from contract.test_contract import SHARED_FOLDERS
from kits.captures import registered_parsers
from telemetry_parsers.contract import Parser

# One of this many losses is tried here, all by `make losses`. The numbers do not divide the losses of a table's line.
ONE_OF = (pytest.param(193, id="few"), pytest.param(13, id="many", marks=pytest.mark.long))


def violations(parser: Parser, sample: Sample, start: int, step: int) -> list[str]:
    """Return what is wrong or silent among a sample of the losses."""
    whole = parser.parse(sample.capture)
    return [
        f"{sample.name}: {loss.kind} {loss.where}: {finding.kind}: {finding.what}"
        for loss in islice(losses(sample.text), start, None, step)
        for finding in findings(parser, sample, loss, whole)
        if finding.kind != "unnoticeable"
    ]


@pytest.mark.parametrize("one_of", ONE_OF)
@pytest.mark.parametrize("name", sorted(registered_parsers()))
def test_losses_are_reported_and_change_no_number(name: str, one_of: int) -> None:
    samples = [*own_samples(name), *real_samples(SHARED_FOLDERS, name)]
    found = [
        text for at, (parser, sample) in enumerate(samples) for text in violations(parser, sample, at % one_of, one_of)
    ]
    assert found == []


def test_losses_of_each_kind_are_tried() -> None:
    text = "GPU  Temp\n0    41C\n1    43C\n"
    kinds = [loss.kind for loss in losses(text)]
    assert {kind: kinds.count(kind) for kind in kinds} == {"line": 3, "tail": 2, "blank": 6, "cell": 6}
    assert "GPU  Temp\n0    41C\n" in {loss.text for loss in losses(text)}
    assert "GPU  Temp\n41C\n1    43C\n" in {loss.text for loss in losses(text)}
