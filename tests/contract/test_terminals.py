"""What a terminal, a launcher or a watch prints around an output changes no reading and is no problem."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kits.captures import command_parsers, of_each_layout, own_cases
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Capture, Command, Output, Report
from telemetry_parsers.text.echoes import arguments_of

PARSERS = command_parsers()
by_parser = pytest.mark.parametrize("name", sorted(PARSERS))
# Each layout is tested with some lines, and each line with some layouts; the long tests try all combinations.
by_share = pytest.mark.parametrize("one_of", [4, pytest.param(1, marks=pytest.mark.long)])
# `{}` is the command line of the tool.
BEFORE = (
    "[root@n ~]# {}",
    "root@n:~# {}",
    "(base) joe@n7:/data/run 3$ sudo {}",
    "[joe@n work]${}",
    "bash-5.1# {}",
    "sh-4.4$ {}",
    "$ {}",
    "# {}",
    "n7% {}",
    "joe@n ~> {}",
    "➜  ~ {}",
    "\x1b[01;32mjoe@n\x1b[00m:\x1b[01;34m~\x1b[00m$ {}",
    "joe@n:~$ ssh n7 {}",
    "joe@n:~$ kubectl exec -it -n ml job-0 -- {}",
    "{}",
    "/opt/tools/bin/{}",
    "sudo {}",
    "+ {}",
    "[sudo] password for joe: ",
    "$ sudo {}\n[sudo] password for joe: ",
    "Every 2.0s: {}                    n7: Sun Nov 22 16:30:01 2025\n",
    "Every 2,0s: {}                    n7: Sun Nov 22 16:30:01 2025\n",
    "Warning: Permanently added 'n7,10.0.0.7' (ED25519) to the list of known hosts.",
    "Warning: Permanently added 'n7' (ECDSA) to the list of known hosts.\r",
    "joe@n7's password: ",
    "Pseudo-terminal will not be allocated because stdin is not a terminal.",
    "Last login: Sun Nov 22 16:30:01 2025 from 10.0.0.1",
    "Authorized users only. All activities may be monitored and reported.",
    'Defaulted container "driver" out of: driver, toolkit (init)',
    "Defaulting container name to driver.\nUse 'kubectl describe pod/job-0 -n ml' to see all of the containers in this pod.",
    "Unable to use a TTY - input is not a terminal or the right kind of file",
    "sudo: unable to resolve host n7: Name or service not known",
)  # fmt: skip
AFTER = (
    "[root@n ~]# ",
    "[root@n ~]#\n",
    "root@n:~# ",
    "(base) joe@n7:/data/run$ \n",
    "bash-5.1# ",
    "$ ",
    "# ",
    "joe@n ~> ",
    "➜  ~ ",
    "[root@n ~]# exit\nlogout\nConnection to n7 closed.\n",
    "Shared connection to n7 closed.\r\n",
)  # fmt: skip


def asked(parser: Parser, output: Output) -> str:
    """Return the command of an output, as a person types it."""
    request = parser.polls[0].request
    assert isinstance(request, Command)
    return output.name or " ".join(request.alternatives[0] if request.per is None else request.alternatives[-1][:1])


def lines_before(parser: Parser, capture: Capture, report: Report) -> list[str]:
    """Return possible lines before an output; no command if the command says which device answers."""
    per_device = any(isinstance(poll.request, Command) and poll.request.per for poll in parser.polls)
    is_named = any(
        arguments_of(line, asked(parser, output).split()[0])
        for output in capture.outputs
        for line in output.text.splitlines()
    )
    if per_device and (is_named or any(device.index is None for device in report.devices)):
        return [text for text in BEFORE if "{}" not in text]
    return list(BEFORE)


def framed(parser: Parser, capture: Capture, before: str, after: str) -> Capture:
    """Return the capture with these lines before and after the text of each output."""
    outputs = []
    for output in capture.outputs:
        first = before.replace("{}", asked(parser, output)) + "\n" if before else ""
        outputs.append(replace(output, text=first + output.text + after if output.text else ""))
    return replace(capture, outputs=tuple(outputs))


def without_positions(report: Report) -> Report:
    """Return the report without line numbers, which a prompt changes."""
    problems = [replace(item, where=re.sub("[0-9]+", "", item.where)) for item in report.problems]
    return replace(report, problems=tuple(replace(item, text=_unplaced(item.text)) for item in problems))


def _unplaced(text: str) -> str:
    return re.sub(r"line [0-9]+ column ([0-9]+) \(char [0-9]+\)", r"column \1", text)


def ends_whole(capture: Capture) -> bool:
    return all(output.text.endswith("\n") for output in capture.outputs if output.text)


def captures_of(name: str, one_of: int) -> Iterator[tuple[int, Capture]]:
    """Return the captures of the tool, numbered; one of each layout in a small run."""
    cases = own_cases(name) if one_of == 1 else of_each_layout(own_cases(name))
    return enumerate(capture for case in cases for capture in case.captures(PARSERS[name]))


@by_share
@by_parser
def test_lines_before_output_are_ignored(name: str, one_of: int) -> None:
    parser = PARSERS[name]
    for number, capture in captures_of(name, one_of):
        whole = without_positions(parser.parse(capture))
        for before in lines_before(parser, capture, whole)[number % one_of :: one_of]:
            assert without_positions(parser.parse(framed(parser, capture, before, ""))) == whole, before


@by_share
@by_parser
def test_prompt_after_output_is_ignored(name: str, one_of: int) -> None:
    parser = PARSERS[name]
    for number, capture in captures_of(name, one_of):
        whole = without_positions(parser.parse(capture))
        for after in AFTER[number % one_of :: one_of] if ends_whole(capture) else ():
            assert without_positions(parser.parse(framed(parser, capture, "", after))) == whole, after
