"""Texts whose form says where secrets stand: configuration files, units, pages of metrics. What may be one is removed or masked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.config.table import show_toml
from telemetry_daemon.masking.mask import Mask
from telemetry_parsers.metrics import OWNER_LABELS

_COMMENT = re.compile(r"""("(?:[^"\\\n]|\\.)*"|'[^'\n]*')|[ \t]*#[^\n]*""")
_SETTING = re.compile(r"^(?P<key>[ \t]*[\w.\"'-]+[ \t]*=[ \t]*)(?P<value>.*)$")
# Settings that name hosts, whatever their values look like.
_OF_HOSTS = frozenset({"rank_table_server", "allowed_hosts"})
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\\n]|\\.)*)"')
# Labels that name somebody or something of theirs, whatever the names look like.
_OF_PEOPLE = frozenset(name for names in OWNER_LABELS.values() for name in names) - {
    "owner_kind",
    "job_id",
    "basis",
    "pid",
}
# A job's number stays everywhere, and joins what is told of it.
_JOB, _OWNER = 'owner_kind="job"', "owner"
_NAMING = _OF_PEOPLE | {"server", "instance", "nodename"}
_ASSIGNED = re.compile(r"""(?:"([\w.]+)=(?:[^"\\]|\\.)*"|'([\w.]+)=[^']*'|([\w.]+)=\S*)""")
_CONTINUED = re.compile(r"[ \t]*\\\n[ \t]*")
_ENVIRONMENT = re.compile(r"^([ \t]*Environment=)(.*)$")
# What a web configuration may say without telling a secret, a name or a path.
_PLAIN_WORD = re.compile(
    r"TLS[0-9A-Z_]{2,60}|Curve\w{1,10}|X25519|\w{0,24}ClientCert\w{0,8}|nosniff|deny|sameorigin", re.IGNORECASE
)
_KEY = re.compile(r"[A-Za-z_-]{2,40}")
_USERS = "basic_auth_users"


def settings(text: str, mask: Mask) -> str:
    """A configuration in TOML without its comments, masked but for what everybody has."""
    usual = frozenset(show_toml(Settings()).split("\n"))
    lines = _COMMENT.sub(lambda match: match[1] or "", text).split("\n")
    return "\n".join(line if line in usual else _setting(line, mask) for line in lines)


def unit(text: str, mask: Mask) -> str:
    """A unit as `systemctl cat` prints it: of its environment only the names of the variables."""
    whole = _CONTINUED.sub(" ", text)
    lines = (_ENVIRONMENT.sub(lambda match: match[1] + _names_of(match[2]), line) for line in whole.split("\n"))
    return mask.text("\n".join(lines))


def page(text: str, mask: Mask) -> str:
    """A page of metrics: the values of its labels masked, its numbers as they are."""

    @lru_cache(maxsize=1 << 16)
    def shown(name: str, value: str) -> str:
        return mask.name(value) if name in _NAMING else mask.text(value, name)

    def sample(line: str) -> str:
        if line.startswith("#"):
            return line
        free = _OWNER if _JOB in line else ""
        return _LABEL.sub(lambda match: f'{match[1]}="{shown("" if match[1] == free else match[1], match[2])}"', line)

    return "\n".join(map(sample, text.split("\n")))


def web(content: bytes) -> str:
    """What a web configuration says, as far as it tells no secret: keys, switches and numbers; of users only how many there are."""
    import yaml

    try:
        plain = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError):  # its text may have secrets anywhere
        return "it is no YAML\n"
    return "".join(f"{line}\n" for line in _of_web(plain, ""))


def _setting(line: str, mask: Mask) -> str:
    found = _SETTING.match(line)
    if found is not None and found["key"].strip(" \t=\"'") in _OF_HOSTS:
        return found["key"] + mask.name(found["value"])
    return mask.text(line)


def _names_of(assignments: str) -> str:
    names = (next(filter(None, match.groups()), "") for match in _ASSIGNED.finditer(assignments))
    return " ".join(f"{name}=removed" for name in names)


def _of_web(plain: object, indent: str) -> Iterator[str]:
    if not isinstance(plain, dict):
        yield f"{indent}{_word(plain)}"
        return
    for key, value in plain.items():
        name = key if isinstance(key, str) and _KEY.fullmatch(key) else "removed"
        if key == _USERS:
            yield f"{indent}{name}: {len(value) if isinstance(value, dict) else 0} removed"
        elif isinstance(value, dict):
            yield f"{indent}{name}:"
            yield from _of_web(value, f"{indent}  ")
        else:
            yield f"{indent}{name}: {_word(value)}"


def _word(value: object) -> str:
    if isinstance(value, bool | int | float) or value is None:
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_word, value))}]"
    return value if isinstance(value, str) and _PLAIN_WORD.fullmatch(value) else "removed"
