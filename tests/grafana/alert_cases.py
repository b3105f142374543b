"""The cases of alert_cases.txt: for each alert series that must make it fire and series that must not."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Series = Mapping[str, str]


@dataclass(frozen=True)
class Case:
    """An alert with series that fire it, and series that do not, by description."""

    alert: str
    fires: Series
    silent: Mapping[str, Series] = field(default_factory=dict)


def of_card(metric: str, device: str, values: str) -> dict[str, str]:
    return {f'{metric}{{V,device="{device}",id="id{device}",model="m"}}': values}


def labelled(series: Series, vendor: str) -> dict[str, str]:
    """Return the series with the placeholders D, T and V replaced by labels."""
    node = 'job="telemetry",instance="node1"'
    labels = {
        "T": node,
        "V": f'{node},vendor="{vendor}"',
        "D": f'{node},vendor="{vendor}",device="0",id="an id",model="m"',
    }
    return {
        re.sub(r"\{([DTV])(?=[,}])", lambda found: "{" + labels[found[1]], name): values
        for name, values in series.items()
    }


def cases_of_the_file() -> Iterator[Case]:
    text = re.sub("^#.*\n", "", Path(__file__).with_suffix(".txt").read_text(), flags=re.MULTILINE)
    words: dict[str, Series] = {
        "CARDS": {name: "1x120" for n in range(16) for name in of_card("accelerator_up", str(n), "")}
    }
    lets, *paragraphs = re.split(r"\n{2,}", text.strip())
    for line in lets.splitlines():
        name, _, given = line.removeprefix("let ").partition(" = ")
        words[name] = _series(given, words)
    for alert, *lines in map(str.splitlines, paragraphs):
        stories = {why.strip(): _series(given, words) for why, _, given in (line.partition(": ") for line in lines)}
        yield Case(alert, stories.pop("fires"), stories)


def _series(text: str, words: Mapping[str, Series]) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(" + "):
        name, _, values = part.partition("} ")
        found |= {f"{name}}}": values} if values else words[part]
    return found
