"""A lint for pages of text 0.0.4. Unlike `promtool check metrics`, it checks units, labels, duplicates and order."""

import re
from collections import Counter

from telemetry_parsers.metrics import OWN_LABELS, OWNER_LABELS

WRONG_UNITS = re.compile(
    r"_(percent|percentage|pct|mhz|khz|ghz|c|degrees|fahrenheit|mb|mib|gb|gib|kb|kib|megabytes|kilobytes|mw|kw|kwh|wh"
    r"|mj|ms|us|ns|milliseconds|microseconds|minutes|hours|milliwatts|volts?_mv)(_|$)"
)
ALLOWED_LABELS = frozenset(
    [
        "vendor",
        "device",
        "id",
        "model",
        "sensor",
        "engine",
        "domain",
        "reason",
        "level",
        "link",
        "location",
        "cause",
        "kind",
        "code",
        "state",
        "action",
        "rail",
        "pipe",
        "limit",
        "dtype",
    ]
)
# Metrics with other labels; None allows any label.
FACT_LABELS = {
    "accelerator_info": None,
    "accelerator_rank_info": frozenset({"rank", "server"}),
    **{name: frozenset(labels) for name, labels in (OWNER_LABELS | OWN_LABELS).items()},
}
_META = re.compile(r"# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)")
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)( \S+)?")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')


def complaints(page: bytes) -> list[str]:
    """Return the defects of a page line by line."""
    text = page.decode("utf-8")
    found = [] if not text or text.endswith("\n") else ["the last line has no end"]
    families: dict[str, dict[str, str]] = {}
    series: Counter[tuple[str, str]] = Counter()
    current = ""
    for number, line in enumerate(text.split("\n")[:-1], 1):
        meta, sample = _META.fullmatch(line), _SAMPLE.fullmatch(line)
        if meta:
            wrong, current = _check_meta(meta, families, current)
        elif sample:
            series[(sample[1], sample[2] or "")] += 1
            wrong = _check_sample(sample, families.get(current, {}), current)
        else:
            wrong = ["neither a comment nor a sample"]
        found += [f"line {number}: {what}: {line}" for what in wrong]
    found += [f"{count} series {name}{{{labels}}}" for (name, labels), count in series.items() if count > 1]
    return found + [f"{name} has no TYPE" for name, meta in families.items() if "TYPE" not in meta]


def _check_meta(meta, families, current):
    keyword, name, value = meta.groups()
    wrong = []
    if name != current and name in families:
        wrong.append("the family was begun before")
    family = families.setdefault(name, {})
    if keyword in family:
        wrong.append(f"a second {keyword}")
    family[keyword] = value
    if keyword == "TYPE":
        wrong += _check_name(name, value)
    return wrong, name


def _check_name(name, kind):
    wrong = []
    if (kind == "counter") != name.endswith("_total"):
        wrong.append("_total is for counters, and for all of them")
    if kind not in ("gauge", "counter"):
        wrong.append(f"a type that is not used here: {kind}")
    if WRONG_UNITS.search(name):
        wrong.append("not a base unit")
    if name.lower() != name or "__" in name:
        wrong.append("not snake_case")
    return wrong


def _check_sample(sample, meta, current):
    name, labels, value, timestamp = sample.groups()
    wrong = []
    if name != current or "TYPE" not in meta:
        wrong.append("not under its own HELP and TYPE")
    if timestamp:
        wrong.append("a timestamp")
    if name.endswith("_info") and float(value) != 1.0:
        wrong.append("an info that is not 1")
    if value in ("NaN", "+Inf", "-Inf"):
        wrong.append("not a number that anybody read")
    return wrong + _check_labels(labels or "", name)


def _check_labels(text, name):
    found = list(_LABEL.finditer(text))
    if sum(len(match[0]) for match in found) != len(text):
        return ["labels that cannot be read"]
    names = [match[1] for match in found]
    wrong = ["a label twice"] if len(set(names)) < len(names) else []
    fact_labels = FACT_LABELS.get(name, frozenset())
    unknown = set() if fact_labels is None else set(names) - ALLOWED_LABELS - fact_labels
    if unknown:
        wrong.append(f"labels {sorted(unknown)}")
    if name.startswith("accelerator_") and not {"vendor", "device", "id", "model"} <= set(names):
        wrong.append("not all identity labels")
    if name.startswith("accelerator_") and name not in FACT_LABELS and len(names) > 5:
        wrong.append("more than one label of its own")
    return wrong
