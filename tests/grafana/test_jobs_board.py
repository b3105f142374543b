"""The answer of each query of the jobs dashboard for a fleet: rows, numbers and sums."""

import json
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from grafana.boards import panels_of
from grafana.owned_fleet import (
    CARDS,
    HAD,
    HAVE,
    OF_JOBS,
    RANGE_SECONDS,
    STEP_TOKENS,
    STEPS,
    Had,
    Key,
    fleet,
    grouped,
    served_by,
    summed,
    tokens_and_energy,
)
from grafana.promtool import RECORDING, Sample, answers, groups_of
from kits.captures import ROOT

pytestmark = pytest.mark.needs("promtool")
Target = tuple[str, str, str]
OWNER_LABELS = ("owner_kind", "owner", "user", "account")
GROUP = ("user", "pod_namespace", "account")
JOB = ("job_id", "user")
OF_CARD = ("instance", "device", "owner")
POD_MODEL = ("namespace", "pod", "model_name")
ALL: Key = ()
WATTS = sum(card.watts for card in CARDS)
OWNED_JOULES = sum(had.seconds * had.card.watts for had in HAD)
Rows = tuple[Sequence[str], Mapping[Key, float]]


def share(had: Had) -> float:
    return had.share


def watts(had: Had) -> float:
    return had.share * had.card.watts


def ratio(above: Mapping[Key, float], below: Mapping[Key, float]) -> dict[Key, float]:
    return {key: above[key] / below[key] for key in below}


def in_groups(had: Sequence[Had], labels: Sequence[str]) -> Mapping[Key, list[Had]]:
    groups: dict[Key, list[Had]] = {}
    for item in had:
        groups.setdefault(grouped(item, labels), []).append(item)
    return groups


def bill(title: str, labels: Sequence[str]) -> dict[Target, Rows]:
    seconds = summed(HAD, labels, lambda had: had.seconds)
    busy = summed(HAD, labels, lambda had: had.seconds * had.card.busy)
    joules = summed(HAD, labels, lambda had: had.seconds * had.card.watts)
    peaks = {key: max(item.memory_bytes for item in had) for key, had in in_groups(HAD, labels).items()}
    hours, watt_hours = ({key: value / 3600 for key, value in sums.items()} for sums in (seconds, joules))
    answers = (hours, ratio(busy, seconds), watt_hours, peaks)
    return {(title, "table", ref): (labels, rows) for ref, rows in zip("ABCD", answers, strict=True)}


def of_jobs() -> dict[Target, Rows]:
    groups = in_groups(OF_JOBS, JOB)
    answers: tuple[Mapping[Key, float], ...] = (
        {key: len(had) for key, had in groups.items()},
        {key: len({item.card.node for item in had}) for key, had in groups.items()},
        {key: min(item.card.busy for item in had) for key, had in groups.items()},
        {key: statistics.median(item.card.busy for item in had) for key, had in groups.items()},
    )
    return {("Slowest card of each job", "table", ref): (JOB, rows) for ref, rows in zip("ABCD", answers, strict=True)}


def now() -> dict[Target, Rows]:
    busy = summed(HAVE, OWNER_LABELS, lambda had: had.share * had.card.busy)
    answers = (
        summed(HAVE, OWNER_LABELS, share),
        ratio(busy, summed(HAVE, OWNER_LABELS, share)),
        summed(HAVE, OWNER_LABELS, watts),
        summed(HAVE, OWNER_LABELS, lambda had: had.memory_bytes),
    )
    return {("Who has cards", "table", ref): (OWNER_LABELS, rows) for ref, rows in zip("ABCD", answers, strict=True)}


def tokens() -> dict[Target, Rows]:
    """Return the expected rows of tokens per energy, for inference servers and training jobs."""
    recorded, found = tokens_and_energy(), dict[Target, Rows]()

    def series(name: str) -> dict[Key, float]:
        return {key: value for (metric, key), value in recorded.items() if metric == f"{name}:rate5m"}

    ratios = ("inference_joules_per_output_token", "inference_output_tokens_per_second_per_watt")
    for title, scope, labels in (("model", "model_name", POD_MODEL[2:]), ("pod", "pod", POD_MODEL)):
        sums = (served_by(labels, lambda server: server.tokens), served_by(labels, lambda server: server.watts))
        answers = (*sums, *(series(f"{scope}:{ratio}") for ratio in ratios))
        found |= {
            (f"Tokens by {title}", "table", ref): (labels, rows) for ref, rows in zip("ABCD", answers, strict=True)
        }
    jobs = (
        {(job_id,): rate for job_id, rate in STEP_TOKENS.items()},
        series("job_id:steps_joules_per_token"),
        series("job_id:steps_tokens_per_second_per_watt"),
    )
    return found | {("Tokens by job", "table", ref): (("job_id",), rows) for ref, rows in zip("ABC", jobs, strict=True)}


def single_value(value: float) -> Rows:
    return (), {ALL: value}


def expected_rows() -> dict[Target, Rows]:
    return {
        ("Owners", "stat", "A"): single_value(len(in_groups(HAVE, ("owner_kind", "owner")))),
        ("Allocated cards", "stat", "A"): single_value(sum(map(share, HAVE))),
        ("Free cards", "stat", "A"): single_value(len(CARDS) - len({had.card for had in HAVE})),
        ("Power", "stat", "A"): single_value(sum(map(watts, HAVE))),
        ("Power", "stat", "B"): single_value(WATTS - sum(map(watts, HAVE))),
        ("Energy in the time range", "stat", "A"): single_value(OWNED_JOULES / 3600),
        ("Energy in the time range", "stat", "B"): single_value((WATTS * RANGE_SECONDS - OWNED_JOULES) / 3600),
        ("Allocated cards", "timeseries", "A"): (GROUP, summed(HAVE, GROUP, share)),
        ("Power", "timeseries", "A"): (GROUP, summed(HAVE, GROUP, watts)),
        ("Idle owners", "table", "A"): (
            OF_CARD,
            summed([had for had in HAVE if had.card.busy < 0.02], OF_CARD, share),
        ),
        ("Foreign processes", "table", "A"): (
            OF_CARD,
            summed([had for had in HAVE if had.card.foreign_bytes], OF_CARD, lambda had: had.card.foreign_bytes),
        ),
        ("Unknown device names", "table", "A"): (("instance", "source"), {("node0", "kubelet"): 2.0}),
        **now(),
        **bill("By user", ("user",)),
        **bill("By account", ("account",)),
        **bill("By namespace", ("pod_namespace",)),
        **bill("By job", JOB),
        **of_jobs(),
        **tokens(),
    }


def rows_of(samples: Sequence[Sample], labels: Sequence[str]) -> dict[Key, float]:
    rows = {tuple(found.get(label, "") for label in labels): value for found, value in samples}
    assert len(rows) == len(samples)
    return rows


def test_each_query_gives_its_rows_and_numbers(tmp_path: Path) -> None:
    """The recording rule includes the jobs with whole cards."""
    targets = {
        (panel["title"], panel["type"], target["refId"]): target["expr"]
        for panel in panels_of(json.loads((ROOT / "grafana" / "dashboards" / "telemetry-jobs.json").read_text()))
        for target in panel["targets"]
    }
    expected = expected_rows()
    assert targets.keys() == expected.keys()
    name = "accelerator:allocation_utilization_ratio:rate5m"
    (rule,) = (rule for group in groups_of(RECORDING) for rule in group["rules"] if rule["record"] == name)
    queries = [
        re.sub(r'"\$\w+"', '".*"', text.replace("$__range", f"{RANGE_SECONDS}s").replace("$__rate_interval", "5m"))
        for text in (*targets.values(), rule["expr"])
    ]
    *found, kept = answers(tmp_path, [], fleet(), [(query, f"{STEPS}m") for query in queries])
    rows: dict[Target, Mapping[Key, float]] = {}
    for target, samples in zip(targets, found, strict=True):
        labels, wanted = expected[target]
        rows[target] = rows_of(samples, labels)
        assert rows[target] == pytest.approx(wanted, rel=0.001), target
    assert rows_of(kept, OF_CARD) == pytest.approx(summed(OF_JOBS, OF_CARD, lambda had: had.card.busy))
    unclear = rows["Energy in the time range", "stat", "B"][ALL]
    for title in ("By user", "By account", "By namespace", "By job"):
        energy = sum(rows[title, "table", "C"].values()) + unclear
        assert energy == pytest.approx(WATTS * RANGE_SECONDS / 3600, rel=0.001), title
