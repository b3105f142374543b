"""Shows a profile on one screen of 24 lines."""

from __future__ import annotations

import statistics
import textwrap
from collections import Counter
from collections.abc import Sequence
from itertools import takewhile

from telemetry_exporters import human
from telemetry_exporters.terminal.style import ABSENT, Colour, Style, paint
from telemetry_exporters.text import clean, cut, first_names, pad_left, pad_right
from telemetry_profile.facts.kernel_kinds import family_of, short_name, shorten_distinctly
from telemetry_profile.format_contract import Split
from telemetry_profile.verdict.cause import verdict_of
from telemetry_profile.verdict.combine import Member, Profile
from telemetry_profile.verdict.slowest_rank import excess_text, rank_spread_of, slow_links, straggler_of
from telemetry_profile.verdict.summary import CardTelemetry, KernelSum, ProfileSummary, kernel_sums
from telemetry_profile.verdict.usual_step import UsualStep, comparable_ranks, mean_split

LINES, COLUMNS = 24, 80
_MIN_KERNEL_LINES, _MAX_KERNEL_LINES = 2, 10
_MATCH_TEXTS = {"uuid": "by uuid", "bus_id": "by bus address", "rank": "by rank", "index": "guessed by number"}
_BASIS_TEXTS = {"given": "from --flops-per-step", "told": "as the file says", "shapes": "a lower bound, from shapes"}
_NS_PER_SECOND = 10**9
_MIN_RATE = 1e9  # FLOP/s; lower rates are negligible
_KERNEL_HEADINGS = ("TOP KERNELS", "CALLS", "TOTAL", "MEAN", "SHARE", "GRID", "BLOCK", "OCC EST")
_MIN_WIDE_WIDTH, _NARROW_COLUMN_COUNT = 120, 5  # narrower tables do not have the launch shape
_MIN_NAME_WIDTH = 20
# Duration units: (minimum duration in ns, name, length in ns).
_UNITS = ((10**11, "s", 10**9), (10**6, "ms", 10**6), (0, "µs", 10**3))
_SPLIT_LABELS = (
    ("span_ns", "step"),
    ("compute_ns", "compute"),
    ("communication_ns", "communication"),
    ("exposed_communication_ns", "exposed"),
    ("copy_ns", "copies"),
    ("idle_ns", "idle"),
    ("wait_ns", "waits for ranks"),
    ("data_wait_ns", "data wait"),
)
_FIRST_DROPPED = ("copy_ns", "communication_ns", "wait_ns")  # if a table is too wide
_RANK_COLUMNS = (
    ("span_ns", "STEP"),
    ("compute_ns", "COMPUTE"),
    ("communication_ns", "COMM"),
    ("exposed_communication_ns", "EXPOSED"),
    ("copy_ns", "COPIES"),
    ("idle_ns", "IDLE"),
    ("wait_ns", "WAIT"),
)


def render_screen(summary: ProfileSummary, width: int, colour: Colour) -> str:
    """Return the summary as text: at most 24 lines or, for several runs, a few lines each."""
    runs = summary.runs
    if len(runs) > 1:
        folders = [_common_folder([member.folder for member in run.profile.members]) for run in runs]
        names = ["/".join(folder[len(_common_folder(folders)) :]) for folder in folders]
        lines_of_runs = [
            _run_lines(run, f"RUN {number} OF {len(runs)}{name and f' ({name})'}", width, colour)
            for number, (run, name) in enumerate(zip(runs, names, strict=True), 1)
        ]
        notes = [line for text in _file_notes(summary.profile) for line in _wrap(text, width, 2)]
        return "\n".join([*lines_of_runs, _paint(notes, frozenset(), width, colour)])
    head = _head_lines(summary, width)
    evidence = [*_mean_step_lines(summary.rank_steps, width), *_rank_table(summary.rank_steps, width)]
    foot = [line for text in _note_lines(summary) for line in _wrap(text, width, 2)]
    free_lines = LINES - len(head) - len(evidence) - len(foot) - 1
    kernels = _kernel_table(summary.profile.members, max(_MIN_KERNEL_LINES, min(_MAX_KERNEL_LINES, free_lines)), width)
    lines = [*head, *evidence, *kernels, *foot][:LINES]
    return _paint(lines, frozenset({0, len(head) + len(evidence)} if kernels else {0}), width, colour)


def _common_folder(folders: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    common_levels = takewhile(lambda names: len(set(names)) == 1, zip(*folders, strict=False))
    return tuple(names[0] for names in common_levels)


def _run_lines(run: ProfileSummary, heading: str, width: int, colour: Colour) -> str:
    files = list(dict.fromkeys(name for member in run.profile.members for name in member.files))
    kernels = _kernel_table(run.profile.members, _MIN_KERNEL_LINES + 1, width)
    lines = [f"{heading}: {first_names(files, ', ', 3)}", *_head_lines(run, width)]
    return _paint([*lines, *_mean_step_lines(run.rank_steps, width), *kernels], frozenset({0}), width, colour)


def _paint(lines: Sequence[str], bold_indices: frozenset[int], width: int, colour: Colour) -> str:
    cut_lines = [cut(clean(line), width).rstrip() for line in lines]
    styles = [Style.BOLD if index in bold_indices else Style.PLAIN for index in range(len(lines))]
    return "".join(f"{paint(line, style, colour)}\n" for line, style in zip(cut_lines, styles, strict=True))


def _head_lines(summary: ProfileSummary, width: int) -> list[str]:
    verdict = verdict_of(summary.profile, summary.rank_steps, summary.card_telemetry)
    if verdict.is_slow:
        sentence = f"Slow because: {verdict.text}"
    else:
        sentence = f"{'Nothing holds it up' if verdict.cause == 'compute' else 'Cause unknown'}: {verdict.text}"
    advice = _wrap(f"Try: {verdict.advice}", width, 2) if verdict.advice else []
    return [*_wrap(_title_line(summary), width, 2), *_wrap(sentence, width, 4), *advice]


def _align(cells: Sequence[str], widths: Sequence[int]) -> str:
    other_cells = zip(cells[1:], widths[1:], strict=True)
    return pad_right(cells[0], widths[0]) + "".join("  " + pad_left(cell, width) for cell, width in other_cells)


def _wrap(text: str, width: int, max_lines: int) -> list[str]:
    lines = textwrap.wrap(clean(text), width, subsequent_indent="  ", break_on_hyphens=False) or [""]
    if len(lines) <= max_lines:
        return lines
    last_line = " ".join([lines[max_lines - 1], *(line.strip() for line in lines[max_lines:])])
    return [*lines[: max_lines - 1], cut(last_line, width)]


def _title_line(summary: ProfileSummary) -> str:
    return ", ".join(filter(None, (_steps_text(summary), _cards_text(summary), _time_text(summary))))


def _steps_text(summary: ProfileSummary) -> str:
    counts = sorted({rank_step.step_count for rank_step in summary.rank_steps})
    spans = [rank_step.split.span_ns for rank_step in summary.rank_steps if rank_step.split.span_ns is not None]
    length = human.short_duration(round(sum(spans) / len(spans))) if spans else "unknown length"
    if not counts or counts[-1] == 0:
        return f"no steps marked, {length}"
    step_count, clock = counts[-1], ""
    if any(rank_step.step_count and rank_step.member.device.step_basis == "host" for rank_step in summary.rank_steps):
        clock = " by the host's clock"
    return f"1 step, {length}{clock}" if step_count == 1 else f"{step_count} steps of {length}{clock}"


def _cards_text(summary: ProfileSummary) -> str:
    devices = [member.device for member in summary.profile.members]
    models = list(dict.fromkeys(device.card.model for device in devices if device.card.model))
    model = f" ({', '.join(models[:2])}{', …' if len(models) > 2 else ''})" if models else ""
    rank_count, job_size = len({device.rank for device in devices} - {None}), summary.profile.job_ranks
    ranks = f"{rank_count} ranks, " if rank_count > 1 else ""
    if job_size and 0 < rank_count < job_size:
        ranks = f"{rank_count} of {job_size} ranks, "
    return f"{ranks}{len(devices)} card{'' if len(devices) == 1 else 's'}{model}"


def _time_text(summary: ProfileSummary) -> str:
    begins = [member.begin_unix_ns for member in summary.profile.members if member.begin_unix_ns is not None]
    if not begins or not human.is_valid_time(min(begins) / _NS_PER_SECOND):
        return ""
    return human.utc(min(begins) / _NS_PER_SECOND)


def _mean_step_lines(rank_steps: Sequence[UsualStep], width: int) -> list[str]:
    compared, rank_names = comparable_ranks(rank_steps)
    # The first label is the step's length. The title shows it already, but for all ranks, not only for `rank_names`.
    labels = _SPLIT_LABELS if rank_names else _SPLIT_LABELS[1:]
    split = mean_split([rank_step.split for rank_step in compared]) if compared else Split()
    unit, scale = _unit_for(max(getattr(split, name) or 0 for name, _ in _SPLIT_LABELS))
    parts = [
        f"{label} {_format_scaled(value, scale)}"
        for name, label in labels
        if (value := getattr(split, name)) is not None and not _is_hidden_zero(name, value, split)
    ]
    if not parts:
        return []
    parts[0] = f"{rank_names}: {parts[0]}" if rank_names else parts[0]
    parts[-1] += f" {unit}"
    if split.launches:
        graphs = f" ({split.graph_launches:,} of graphs)" if split.graph_launches else ""
        parts.append(f" launches {split.launches:,}{graphs}")
    line = "  ".join(parts)
    return [line] if len(line) <= width else ["  ".join(parts[:4]), "  ".join(parts[4:])]


def _is_hidden_zero(name: str, value: int, split: Split) -> bool:
    if name == "exposed_communication_ns":
        return value == 0 and not split.communication_ns
    return name in ("wait_ns", "data_wait_ns") and value == 0


def _rank_table(rank_steps: Sequence[UsualStep], width: int) -> list[str]:
    """Return the lines of a table that compares the ranks, or [] for a single card."""
    spread = rank_spread_of(rank_steps)
    if spread is None:
        return []
    straggler = straggler_of(rank_steps)
    rows: list[tuple[str, Split]] = [
        ("median", _median_split(rank_steps)),
        (f"slowest: {spread.slowest.name}", spread.slowest.split),
        (f"fastest: {spread.fastest.name}", spread.fastest.split),
    ]
    rows += [
        (f"straggler: rank {straggler.rank}", rank_step.split)
        for rank_step in rank_steps
        if straggler and rank_step.member.device.rank == straggler.rank
    ]
    unit, scale = _unit_for(spread.median_ns)
    columns = [
        (name, heading) for name, heading in _RANK_COLUMNS if any(getattr(split, name) is not None for _, split in rows)
    ]
    lines = _table_lines(f"RANKS ({unit})", columns, rows, scale, width)
    skew_line = f"skew: the slowest rank takes {excess_text(spread.skew)} the median"
    return [*lines, skew_line] if spread.skew >= 0.001 else lines


def _table_lines(
    heading: str, columns: Sequence[tuple[str, str]], rows: Sequence[tuple[str, Split]], scale: int, width: int
) -> list[str]:
    """Return the lines of a table. Drop columns until the lines fit the width."""
    lines = [[heading, *(column_heading for _, column_heading in columns)]]
    lines += [[label, *(_format_scaled(getattr(split, name), scale) for name, _ in columns)] for label, split in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    if sum(widths) + 2 * len(columns) > width and len(columns) > 1:
        dropped = next((column for column in columns if column[0] in _FIRST_DROPPED), columns[-1])
        return _table_lines(heading, [column for column in columns if column != dropped], rows, scale, width)
    return [_align(line, widths) for line in lines]


def _median_split(rank_steps: Sequence[UsualStep]) -> Split:
    columns = {name: [getattr(step.split, name) for step in rank_steps] for name, _ in _RANK_COLUMNS}
    return Split(
        **{name: None if None in values else round(statistics.median(values)) for name, values in columns.items()}
    )


def _unit_for(longest_ns: int) -> tuple[str, int]:
    return next((name, scale) for minimum, name, scale in _UNITS if longest_ns >= minimum)


def _format_scaled(value: int | None, scale: int) -> str:
    if value is None:
        return ABSENT
    return f"{value / scale:,.1f}" if value else "0"


def _kernel_table(members: Sequence[Member], max_lines: int, width: int) -> list[str]:
    """Return the lines of the kernel table, followed by a line with the shares of the kernel kinds."""
    sums = kernel_sums(members)
    if not sums:
        return []
    column_count = len(_KERNEL_HEADINGS) if width >= _MIN_WIDE_WIDTH else _NARROW_COLUMN_COUNT
    total_ns = sum(kernel_sum.total_ns for kernel_sum in sums)
    shown = sums[: max_lines - 1]
    heading = _KERNEL_HEADINGS[:column_count]
    rows = [_kernel_cells(kernel_sum, total_ns)[: column_count - 1] for kernel_sum in shown]
    widths = [max(len(row[column]) for row in [heading[1:], *rows]) for column in range(len(heading) - 1)]
    name_width = max(_MIN_NAME_WIDTH, width - sum(widths) - 2 * len(widths))
    names = shorten_distinctly([short_name(clean(kernel_sum.longest.name)) for kernel_sum in shown], name_width)
    lines = [
        _align([name, *row], [name_width, *widths])
        for name, row in zip([heading[0], *names], [heading[1:], *rows], strict=True)
    ]
    return [*lines, *_kernel_kind_lines(sums, total_ns, width)]


def _kernel_kind_lines(sums: Sequence[KernelSum], total_ns: int, width: int) -> list[str]:
    totals: Counter[str] = Counter()
    for kernel_sum in sums:
        work = kernel_sum.longest.work
        totals[family_of(kernel_sum.longest.name) if work == "compute" else work] += kernel_sum.total_ns
    shown = [f"{kind} {human.percent(total / total_ns)}" for kind, total in totals.most_common()] if total_ns else []
    while len(line := f"by kind: {', '.join(shown)}") > width:
        shown.pop()
    return [line] if len(shown) > 1 else []


def _kernel_cells(kernel_sum: KernelSum, total_ns: int) -> tuple[str, ...]:
    occupancy = kernel_sum.longest.occupancy_ratio
    return (
        f"{kernel_sum.calls:,}",
        human.short_duration(kernel_sum.total_ns),
        human.short_duration(round(kernel_sum.total_ns / max(1, kernel_sum.calls))),
        f"{kernel_sum.total_ns / total_ns:.1%}" if total_ns else ABSENT,
        kernel_sum.longest.grid or ABSENT,
        kernel_sum.longest.block or ABSENT,
        ABSENT if occupancy is None else f"{occupancy:.0%}",
    )


def _note_lines(summary: ProfileSummary) -> list[str]:
    left_out = list(dict.fromkeys(text for rank_step in summary.rank_steps for text in rank_step.left_out))
    notes = [*_slow_link_lines(summary), _achieved_line(summary), _telemetry_line(summary)]
    if left_out:
        notes.append(f"left out: {'; '.join(left_out)}")
    return [*notes, *_file_notes(summary.profile)]


def _file_notes(profile: Profile) -> list[str]:
    notes = list(profile.remarks[:2])
    if profile.problems:
        more_text = f" (and {len(profile.problems) - 1} more)" if len(profile.problems) > 1 else ""
        notes.append(f"not read: {profile.problems[0].where}: {profile.problems[0].text}{more_text}")
    return notes


def _slow_link_lines(summary: ProfileSummary) -> list[str]:
    links = slow_links(summary.profile.links)
    if not links:
        return []
    worst = links[0]
    tail = f" (and {len(links) - 1} more)" if len(links) > 1 else ""
    name = f"{worst.link.kind} {worst.link.source} → {worst.link.target}"
    return [f"slow link: {name} moves {worst.rate / 1e9:.2f} GB/s (median: {worst.median_rate / 1e9:.2f} GB/s){tail}"]


def _achieved_line(summary: ProfileSummary) -> str:
    pairs = zip(summary.rank_steps, summary.achieved, strict=True)
    results = [(achieved, rank_step.member.device.card.model) for rank_step, achieved in pairs if achieved is not None]
    if not results:
        return f"achieved {ABSENT}  (the files contain no FLOPs; set --flops-per-step)"
    first_achieved, model = results[0]
    basis = _BASIS_TEXTS[first_achieved.basis]
    rate = sum(achieved.flops_per_second for achieved, _ in results) / len(results)
    if rate < _MIN_RATE:
        return f"achieved FLOP/s are negligible ({basis})"
    shares = [achieved.peak_share_ratio for achieved, _ in results if achieved.peak_share_ratio is not None]
    dtype = f" {first_achieved.dtype}" if first_achieved.dtype else ""
    peak_text = f", the{dtype} peak of {model or 'the card'} is unknown"
    if len(shares) == len(results):
        peak_text = f", {human.percent(sum(shares) / len(shares))} of the card's{dtype} peak"
    elif not first_achieved.dtype:
        peak_text = ", the peak is unknown without the data type (--dtype)"
    per_card = " a card" if len(results) > 1 else ""
    return f"achieved {rate / 1e12:.3g} TFLOP/s{per_card}{peak_text} ({basis})"


def _telemetry_line(summary: ProfileSummary) -> str:
    cards = [card for card in summary.card_telemetry if card is not None]
    if not summary.telemetry:
        return "card: no telemetry (use --recording FILE or --prometheus URL)"
    if not cards:
        return f"card: {summary.telemetry} has no readings of these cards during the profile"
    worst_card = max(cards, key=lambda card: sum(card.throttled_seconds.values()))
    return f"card {worst_card.device} ({_MATCH_TEXTS[worst_card.matched_by]}): {'; '.join(_card_texts(worst_card))}"


def _card_texts(telemetry: CardTelemetry) -> list[str]:
    parts = []
    if telemetry.clock_hertz is not None:
        max_text = f" of {telemetry.clock_max_hertz / 1e6:,.0f}" if telemetry.clock_max_hertz else ""
        parts.append(f"{telemetry.clock_hertz.mean / 1e6:,.0f}{max_text} MHz")
    if telemetry.temperature_celsius is not None:
        parts.append(f"at most {human.celsius(telemetry.temperature_celsius.max)}")
    if telemetry.power_watts is not None:
        cap_text = f" of {human.watts(telemetry.power_cap_watts)}" if telemetry.power_cap_watts else ""
        mean_text = human.watts(telemetry.power_watts.mean)
        parts.append(f"{mean_text.removesuffix(' W')}{cap_text}" if cap_text else mean_text)
    parts += [
        f"throttled by {reason.replace('_', ' ')} for {human.seconds(seconds)}"
        for reason, seconds in list(telemetry.throttled_seconds.items())[:2]
    ]
    parts += telemetry.errors[:2]
    return parts or ["no readings"]
