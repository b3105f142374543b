"""A profile on one screen: the verdict and its evidence, in 24 lines."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from telemetry_exporters import human
from telemetry_exporters.terminal.style import ABSENT, Colour, Style, paint
from telemetry_exporters.text import clean, cut
from telemetry_profile.screens.kernels import kernel_table
from telemetry_profile.screens.parts import parts_line, rank_table
from telemetry_profile.verdict.achieved import Achieved
from telemetry_profile.verdict.answer import Answer
from telemetry_profile.verdict.cause import verdict_of
from telemetry_profile.verdict.slowest_rank import slow_links
from telemetry_profile.verdict.then import Then

LINES, COLUMNS = 24, 80
_FEWEST_KERNELS, _MOST_KERNELS = 2, 10
_MATCHES = {"uuid": "by uuid", "bus_id": "by bus address", "rank": "by rank", "index": "a guess, by its number"}
_BASES = {"given": "from --flops-per-step", "told": "as the file tells", "shapes": "a lower bound, from shapes"}
_LEAST_SECONDS = 10**9


def screen(answer: Answer, width: int, colour: Colour) -> str:
    """The answer in at most 24 lines, each at most as wide as `width`."""
    head = [*_wrapped(_title(answer), width, 2), *_wrapped(_verdict(answer), width, 3)]
    evidence = [*parts_line(answer.ranks, width), *rank_table(answer.ranks)]
    foot = [line for text in _notes(answer) for line in _wrapped(text, width, 2)]
    room = LINES - len(head) - len(evidence) - len(foot) - 1
    kernels = kernel_table(answer.profile.members, max(_FEWEST_KERNELS, min(_MOST_KERNELS, room)), width)
    lines = [*head, *evidence, *kernels, *foot][:LINES]
    bold = {0, len(head) + len(evidence)} if kernels else {0}
    shown = [cut(clean(line), width).rstrip() for line in lines]
    return "".join(
        f"{paint(line, Style.BOLD if number in bold else Style.PLAIN, colour)}\n" for number, line in enumerate(shown)
    )


def _wrapped(text: str, width: int, most: int) -> list[str]:
    """The text in at most so many lines; what does not fit is cut off, visibly."""
    lines = textwrap.wrap(clean(text), width, subsequent_indent="  ", break_on_hyphens=False) or [""]
    return (
        [*lines[: most - 1], cut(" ".join([lines[most - 1], *(line.strip() for line in lines[most:])]), width)]
        if len(lines) > most
        else lines
    )


def _title(answer: Answer) -> str:
    return ", ".join(filter(None, (_steps(answer), _cards(answer), _moment(answer))))


def _steps(answer: Answer) -> str:
    counts = sorted({rank.steps for rank in answer.ranks})
    spans = [rank.split.span_ns for rank in answer.ranks if rank.split.span_ns is not None]
    length = human.span(round(sum(spans) / len(spans))) if spans else "length not told"
    if not counts or counts[-1] == 0:
        return f"no steps marked, {length}"
    most = counts[-1]
    return f"1 step, {length}" if most == 1 else f"{most} steps of {length}"


def _cards(answer: Answer) -> str:
    cards = len(answer.profile.members)
    models = list(
        dict.fromkeys(member.device.card.model for member in answer.profile.members if member.device.card.model)
    )
    named = f" ({', '.join(models[:2])}{', …' if len(models) > 2 else ''})" if models else ""
    ranks = {member.device.rank for member in answer.profile.members} - {None}
    of_size = (
        f"{len(ranks)} of {answer.profile.ranks} ranks, "
        if answer.profile.ranks and 0 < len(ranks) < answer.profile.ranks
        else ""
    )
    if not of_size and len(ranks) > 1:
        of_size = f"{len(ranks)} ranks, "
    return f"{of_size}{cards} card{'' if cards == 1 else 's'}{named}"


def _moment(answer: Answer) -> str:
    begins = [member.begin_unix_ns for member in answer.profile.members if member.begin_unix_ns is not None]
    if not begins or not human.is_moment(min(begins) / _LEAST_SECONDS):
        return ""
    return human.utc(min(begins) / _LEAST_SECONDS)


def _verdict(answer: Answer) -> str:
    verdict = verdict_of(answer.profile, answer.ranks, answer.then)
    if verdict.is_slow:
        return f"Slow because: {verdict.text}"
    return f"Nothing holds it up: {verdict.text}" if verdict.cause == "compute" else f"Not told: {verdict.text}"


def _notes(answer: Answer) -> list[str]:
    """What is below the kernels: links, FLOP/s, telemetry, what is left out, what could not be read."""
    left_out = list(dict.fromkeys(text for rank in answer.ranks for text in rank.left_out))
    notes = [*_links(answer), _achieved(answer.achieved), _then(answer)]
    if left_out:
        notes.append(f"left out: {'; '.join(left_out)}")
    notes += answer.profile.remarks[:2]
    problems = answer.profile.problems
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        notes.append(f"not read: {problems[0].where}: {problems[0].text}{more}")
    return notes


def _links(answer: Answer) -> list[str]:
    slow = slow_links(answer.profile.links)
    if not slow:
        return []
    worst = slow[0]
    more = f" (and {len(slow) - 1} more)" if len(slow) > 1 else ""
    name = f"{worst.link.kind} {worst.link.source} → {worst.link.target}"
    return [f"slow link: {name} moves {worst.rate / 1e9:.2f} GB/s, the median is {worst.median_rate / 1e9:.2f}{more}"]


def _achieved(achieved: Sequence[Achieved | None]) -> str:
    told = [one for one in achieved if one is not None]
    if not told:
        return f"achieved {ABSENT}  (no FLOPs in the file: --flops-per-step)"
    rate = sum(one.flops_per_second for one in told) / len(told)
    shares = [one.share for one in told if one.share is not None]
    dtype = f" {told[0].dtype}" if told[0].dtype else ""
    of_peak = (
        f", {human.percent(sum(shares) / len(shares))} of the card's{dtype} peak"
        if len(shares) == len(told)
        else ", peak not known"
    )
    each = " a card" if len(told) > 1 else ""
    return f"achieved {rate / 1e12:.3g} TFLOP/s{each}{of_peak} ({_BASES[told[0].basis]})"


def _then(answer: Answer) -> str:
    told = [one for one in answer.then if one is not None]
    if not answer.telemetry:
        return "card: no telemetry asked (--recording FILE or --prometheus URL)"
    if not told:
        return f"card: {answer.telemetry} tells nothing of these cards in these seconds"
    worst = max(told, key=lambda one: sum(seconds for _, seconds in one.throttled_seconds))
    return f"card {worst.device} ({_MATCHES[worst.matched_by]}): {'; '.join(_of_card(worst))}"


def _of_card(then: Then) -> list[str]:
    told = []
    if then.clock_hertz is not None:
        most = f" of {then.clock_max_hertz / 1e6:,.0f}" if then.clock_max_hertz else ""
        told.append(f"{then.clock_hertz.mean / 1e6:,.0f}{most} MHz")
    if then.temperature_celsius is not None:
        told.append(f"at most {human.celsius(then.temperature_celsius.high)}")
    if then.power_watts is not None:
        cap = f" of {human.watts(then.power_cap_watts)}" if then.power_cap_watts else ""
        told.append(
            f"{human.watts(then.power_watts.mean).removesuffix(' W') if cap else human.watts(then.power_watts.mean)}{cap}"
        )
    told += [
        f"throttled by {reason.replace('_', ' ')} for {human.seconds(seconds)}"
        for reason, seconds in then.throttled_seconds[:2]
    ]
    told += then.errors[:2]
    return told or ["nothing told"]
