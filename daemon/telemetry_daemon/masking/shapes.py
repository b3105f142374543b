"""The patterns of names, addresses, serial numbers and secrets, and their treatments."""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Literal

from telemetry_daemon.masking.disguise import without_leading_zeros
from telemetry_daemon.masking.tokens import TOKENS
from telemetry_daemon.masking.words import HARMLESS_WORDS, looks_like_identity
from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, replace

# `each` masks all words, `names` the words that are not harmless, and `odd` the words that look like identities.
Treatment = Literal["whole", "whole_number", "address", "each", "names", "odd", "keep"]

_SERIALS = (
    r"serial(?:s|[ _.-]?(?:numbers?|num|nr|no|id))?(?![a-z])|(?<![a-z])s/n|(?<![a-z])p?sn|uuids?|unique[ _-]?ids?"
    r"|(?:silicon|hive|machine|boot|(?<!sub)system|invocation|container|sandbox)[ _-]?id|(?<![a-z])ecid|bar[ _-]?code"
    r"|(?:asset|service)[ _-]?(?:tag|number|no)|(?<![a-z])(?:wwn|wwpn|wwnn|wwid|nguid|eui(?:64)?|lladdr|gid|eid)"
    r"|(?<![a-z])mac(?:[ _-]?addr(?:ess)?)?|hwaddr|序列号|序號|资产(?:编号|标签)|条码|机器码|唯一标识"
)
# After these keys, a short value is a slot or type, and a long value is a serial number.
_SHORT_OR_SERIAL = r"(?:chip|board|module|asic|product)[ _-]?(?:id|number|no)|guids?|device[ _-]?(?:number|no)"
_NAMES = (
    r"(?<![a-z])host[ _-]?(?:name|ip)?|(?<![a-z])node[ _-]?(?:name|list)|server[ _-]?(?:id|name)|(?:job|run|pod|container|account)[ _-]?name"
    r"|(?:job|login)[ _-]?user|(?<![a-z])(?:users?|user[ _-]?name|logname|(?:primary|supplementary)?groups?(?=[ \t]?=))|(?<![a-z])(?:owner|login|account|namespace|tenant|e-?mail|domain[ _-]?name)"
    r"|主机名|用户名?|节点名|域名"
)
_COMMANDS = r"process[ _-]?name|cmd[ _-]?line|(?<![a-z])(?:command|comm|cwd|exe)|进程名"
# Maps a lower-case substring to a pattern whose matches contain the substring.
_SECRET_WORDS: Mapping[str, str] = {
    "pass": r"passw(?:or)?d[0-9]{0,3}|pass[ _-]?phrase|(?<![a-z])pass(?==(?![0-9]{1,6}(?![\w.])))",
    "pwd": r"(?<![a-z])pwd",
    "secret": "secret",
    "token": "token",
    "key": r"(?:api|access|private)[ _-]?key",
    "credential": r"credentials?",
    "auth": r"(?<![a-z])auth(?:orization)?",
    "cookie": "cookie",
}
_SECRET_IDEOGRAPHS = ("密码", "口令", "令牌", "密钥")
_SECRETS = rf"(?:{'|'.join(_SECRET_WORDS.values())})(?:[_-]?(?:id|key|file))?|{'|'.join(_SECRET_IDEOGRAPHS)}"
# The text after a key must not be another key.
_NO_KEY = r"(?![\w-]{1,40} ?[:=：][ \t])"
# In a log, backslashes may precede a quotation mark.
_ASSIGNED = r"(?:\\{0,4}[\"'\])]){0,2}[ \t]{0,80}(?:[:=：]|>(?=[^\s<])|#:?|=>)[ \t]{0,80}"
_TO_VALUE = _ASSIGNED + r"(?:\\{0,4}[\"'\[])?" + _NO_KEY
_QUOTED = r"\\{0,4}([\"'])(?P<value>(?:(?!\1)[^\\\r\n]){1,400})"
_MIXED_WORD = r"(?P<value>(?=[^\s]{0,60}[0-9])(?=[^\s]{0,60}[A-Za-z])[^\s\"',;|]{6,60})"
_REST_OF_VALUE = r"(?P<value>[^\s\"'|,;<}\]][^\"'|,;<\r\n}\]]{0,400}?)(?=[\"'|,;<\r\n}\]]|[ \t]{2}|[ \t]{0,2}$)"
_DIE_ID = r"(?P<value>[0-9a-fA-F]{3,8}(?: [0-9a-fA-F]{3,8}){1,7})"
_WORD = r"(?P<value>[^\s\"'|,;<>&]{1,2000})"
_WORD_OF_A_TABLE = r"(?P<value>[^\s\"'|,;<}\]]{1,400})"
_HEADER = r"\\{0,4}[\"']?[ \t]*[:=][ \t]*\\{0,4}[\"']?"
_HEADER_WORD = r"[^\s\"'\\;,]{1,4000}"
_HEX = "[0-9a-fA-F]"
_UUID = rf"{_HEX}{{8}}([-_])(?:{_HEX}{{4}}\2){{3}}{_HEX}{{12}}"
_QUANTITIES = (units.BYTES, units.JOULES, units.HERTZ, units.SECONDS, units.WATTS)
_UNITS = "|".join(sorted({re.escape(unit) for units in _QUANTITIES for unit in units}))
_VERSION = r"[vV]?[0-9]{1,3}\.[0-9]{1,6}(?:\.(?:[0-9]{1,6}|rc[0-9]*|RC[0-9]*|B[0-9]{3}))*"
_RUNTIMES = "cri-containerd|docker|crio|libpod(?:-payload|-conmon)?|crio-conmon|nerdctl|isulad?|buildkit"
_BUILD = r"(?:[0-9a-f]{7,10}|[a-zV]{0,8}[0-9]{0,3}(?:\.[0-9]\w{0,3}){0,3}|[0-9]{1,3}-[a-z]{1,10})"
_MEASURES = (
    r"mem(?:ory)?|v?ram|gtt|size|bytes?|used|usage|free|total|energy|count(?:er)?s?|clock|time(?:stamp)?|acc(?:umulated)?|num|oct"
    r"|activity|residency|limit|max|min|duration|capability|base|raw|value|read|write|sent|received|throughput|bandwidth|affinity"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """A pattern of values to mask or keep. Only texts that contain one of `required_words` are searched."""

    pattern: re.Pattern[str]
    treatment: Treatment
    accepts: Callable[[re.Match[str]], bool] = lambda _: True
    required_words: tuple[str, ...] = ()

    def may_be_in(self, lower_text: str) -> bool:
        """Return whether a lower-case text has one of the required words."""
        return not self.required_words or any(word in lower_text for word in self.required_words)


def is_identifying(value: str) -> bool:
    """Return whether a key's value is an identity. `N/A` and zeros are not."""
    if len(value) > 1 and len(set(value.lower().removeprefix("0x")) - set("-: ")) == 1 and not value.isdigit():
        return False
    words = re.findall(r"[^\W_]+", value.lower())
    return any(not (set(word) <= set("x0") or word in HARMLESS_WORDS) and not word.isspace() for word in words)


def is_address(text: str) -> bool:
    """Return whether the text is the IP address of a machine. 127.0.0.1 is not."""
    address = _parse_address(text)
    return address is not None and not (address.is_loopback or address.is_unspecified or text.startswith("255."))


def is_private(text: str) -> bool:
    """Return whether the text is a private IP address, such as 10.1.2.3."""
    address = _parse_address(text)
    return address is not None and address.is_private and not text.startswith("0.")


def _parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(without_leading_zeros(text))
    except ValueError:  # not an address
        return None


def _is_long_number(match: re.Match[str]) -> bool:
    value = match["value"].lower().removeprefix("0x").lstrip("0")
    return len(value) >= 8 and not set(value) <= set("x0")


def _is_numeric_id(match: re.Match[str]) -> bool:
    return len(match["value"]) >= 5 and any(character in "123456789" for character in match["value"])


def _is_address_not_version(match: re.Match[str]) -> bool:
    value = match["value"]
    if not is_address(value):
        return False
    text_before = match.string[max(0, match.start() - 40) : match.start()]
    if match.string[match.end() : match.end() + 1] in (":", "/"):
        return True
    return _VERSION_BEFORE.search(text_before) is None or is_private(value)


def _is_long_and_varied(match: re.Match[str]) -> bool:
    digits = match["value"].lower().removeprefix("0x").lstrip("0")
    return len(digits) > 8 and len(set(digits)) > 2  # eight digits may be a 32-bit word


def _is_base64(match: re.Match[str]) -> bool:
    """Return whether a string looks like a base64 key and not like a path."""
    return not match["value"].startswith("/") and all(
        re.search(character_class, match["value"]) for character_class in ("[a-z]", "[A-Z]", "[0-9]")
    )


def _is_uuid_beginning(match: re.Match[str]) -> bool:
    """Return whether the match is the beginning of a UUID and not two numbers."""
    head = match["value"].partition("-")[0]
    return (head.isupper() and head.isalpha()) or (_is_nonzero(match) and not head.isdigit() and not head.isalpha())


def _is_nonzero(match: re.Match[str]) -> bool:
    return any(character in "123456789abcdefABCDEF" for character in match["value"])


def _is_measured_value(match: re.Match[str]) -> bool:
    return _MEASURE_BEFORE.search(match.string[max(0, match.start() - 80) : match.start()]) is not None


_MEASURE_BEFORE = re.compile(
    rf"(?:{_MEASURES})[\w ]{{0,20}}(?:\((?:[^()\n]|\([^()\n]{{0,12}}\)){{1,24}}\))?[\"']?[ \t]{{0,40}}[:=]?[ \t]{{0,40}}[\"']?\Z",
    re.IGNORECASE,
)
_VERSION_BEFORE = re.compile(
    r"(?<![a-z])(?:[\w-]{0,20}(?:version|driver|firmware|release|bios|library|runtime|smi)|ver|rev|fw)\)?[\"']?"
    r"[ \t:=|]{0,20}[\"']?v?\Z",
    re.IGNORECASE,
)


def _shapes(*rows: tuple[str, Treatment] | tuple[str, Treatment, Callable[[re.Match[str]], bool]]) -> tuple[Shape, ...]:
    return tuple(Shape(re.compile(row[0], re.MULTILINE), *row[1:]) for row in rows)


_SECRET_SHAPES = _shapes(
    (rf"(?i:authorization{_HEADER})(?P<value>(?:[A-Za-z][\w-]{{0,40}}[ \t]{{1,4}}(?![\w-]{{1,40}}:))?{_HEADER_WORD}(?:,[ \t]{{0,4}}{_HEADER_WORD}){{0,20}})", "each"),
    (rf"(?i:cookie{_HEADER})(?P<value>{_HEADER_WORD}(?:;[ \t]{{0,4}}{_HEADER_WORD}){{0,200}})", "each"),
    (rf"(?i:(?:{_SECRETS})(?:{_ASSIGNED}|[ \t]+)){_QUOTED}", "each"),
    (rf"(?i:(?:{_SECRETS}){_TO_VALUE}){_WORD}", "each"),
    (rf"(?i:(?:{_SECRETS})[ \t]+){_MIXED_WORD}", "each"),
    # The variable's name may have a prefix and a suffix: `HF_TOKEN_PROD=…`, `DB_PASSWORD_2=…`.
    (rf"(?<![A-Za-z0-9_])[A-Z0-9_]{{0,60}}(?:PASS(?:WORD|WD)?|PWD|SECRET|TOKEN|(?:API|ACCESS|PRIVATE)_?KEY|CREDENTIALS?|AUTH|COOKIE)[A-Z0-9_]{{0,60}}=(?:\\{{0,4}}[\"'])?{_WORD}", "each"),
    (r"(?<![A-Za-z0-9_])PASS:[ \t]*(?P<value>[^\s\"',;|]{1,400})", "each", lambda match: is_identifying(match["value"]) and not match["value"].isdigit()),
)  # fmt: skip
# Later rows skip the matches of earlier rows.
SHAPES = (*(replace(shape, required_words=(*_SECRET_WORDS, *_SECRET_IDEOGRAPHS)) for shape in _SECRET_SHAPES), *_shapes(
    # These values follow a key. KFD prints its IDs in decimal.
    (r"^(?:unique_id|hive_id) (?P<value>[0-9]{1,20})$", "whole_number"),
    (rf"(?i:--?(?:{_SECRETS}|user|login|host|node)[ \t=]+){_QUOTED}", "each"),
    (rf"(?i:--?(?:{_SECRETS}|user|login|host|node)[ \t]+){_WORD}", "each"),
    (rf"(?<![\w-])-p[ \t=]?{_MIXED_WORD}", "each"),
    (r"(?i:licen[cs]e(?:[ _-]?(?:key|id|number|no))?[ \t]{0,20}[:=][ \t]{0,20}[\"']?)(?P<value>[0-9A-Za-z]{4,8}(?:-[0-9A-Za-z]{4,8}){2,8})", "whole"),
    (r"(?i:\b(?:bearer|basic|negotiate)[ \t]+)(?P<value>[\w.+/=-]{8,4000})", "each"),
    (rf"(?i:v?die[ _-]?id{_TO_VALUE}){_DIE_ID}", "each"),
    (rf"(?i:(?:{_SERIALS}|v?die[ _-]?id){_TO_VALUE}){_WORD_OF_A_TABLE}", "each", lambda match: is_identifying(match["value"])),
    (rf"(?i:(?:{_SERIALS})[ \t#]+)(?P<value>[\w:.-]+)", "each", _is_numeric_id),
    (rf"(?i:(?:{_SHORT_OR_SERIAL}){_TO_VALUE})(?P<value>[\w-]+)", "whole", _is_long_number),
    # These values have a recognizable shape and need no key.
    (rf"(?P<value>(?:\b[A-Z]{{2,4}}-)?{_UUID})", "whole", _is_nonzero),
    (rf"(?<![0-9a-zA-Z_-])(?P<value>(?:[A-Z]{{2,4}}-)?{_HEX}{{8}}(?:-{_HEX}{{4}}){{1,3}}(?:-{_HEX}{{1,12}})?)(?![0-9a-zA-Z-])", "whole", _is_uuid_beginning),
    # A runtime's name precedes the ID of a container or pod: `cri-containerd-ID.scope`.
    (rf"(?<![0-9a-zA-Z])(?:{_RUNTIMES})[-:](?P<value>[0-9a-f]{{64}})(?![0-9a-zA-Z])", "whole"),
    (r"pod(?P<value>[0-9a-f]{32})(?![0-9a-zA-Z])", "whole"),
    (r"(?<![\w-])machine-(?P<value>[^/\s\"']{1,200}?)\.scope", "whole"),
    # Job numbers are kept, because they connect the records of a job.
    (r"(?<![0-9a-zA-Z])(?:job|step|task)_(?P<value>[0-9]{1,20})(?![0-9a-zA-Z])", "keep"),
    (r"(?<![\w])(?:slurm|pbs|flux|job)-(?P<value>[0-9]{1,20})(?=[.\[])", "keep"),
    (r"(?:^|/|pbs-)[0-9]{1,20}(?:\[[0-9]{0,9}\])?\.(?P<value>[A-Za-z][\w-]{0,60}(?:\.[\w-]{1,60}){0,8}?)(?=$|/|\.json$)", "names"),
    (r"(?<![\w])s(?P<value>[0-9A-HJKMNP-TV-Z]{13})(?![\w])", "whole", _is_nonzero),
    (r"(?<![\w])[fƒ](?P<value>[1-9A-HJ-NP-Za-km-z]{5,12})(?![\w])", "whole", lambda match: looks_like_identity(f"f{match['value']}")),
    (r"(?<![0-9a-zA-Z])shell-[0-9]{1,9}-(?P<value>[^/.\s]{1,60})\.service", "odd"),
    (rf"(?<![0-9a-zA-Z])(?P<value>[A-Z]{{2,4}}-{_HEX}{{8,32}})(?![0-9a-zA-Z])", "whole", _is_nonzero),
    (rf"(?<![:-])(?P<value>{_HEX}{{2}}(?:([:-]){_HEX}{{2}})(?:\2{_HEX}{{2}}){{4,18}})", "whole", _is_nonzero),
    (rf"(?<![0-9a-fA-F.])(?P<value>{_HEX}{{4}}\.{_HEX}{{4}}\.{_HEX}{{4}})(?![0-9a-zA-Z])", "whole", _is_nonzero),
    (rf"(?<![0-9a-fA-F:])(?P<value>{_HEX}{{4}}(?::{_HEX}{{4}}){{3}})(?![0-9a-zA-Z:])", "whole", _is_nonzero),
    (r"(?<![0-9a-zA-Z:.])(?P<value>[0-9a-fA-F:]{0,39}:[0-9a-fA-F:]{0,39}:(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F]{0,4}))(?![0-9a-zA-Z])", "address", lambda match: is_address(match["value"])),
    (r"(?<![0-9.])(?P<value>[0-9]{1,3}(?:\.[0-9]{1,3}){3})(?![0-9]|\.[0-9])", "address", _is_address_not_version),
    (r"(?<![\w/+.-])(?P<value>[A-Za-z0-9+/]{32,}={0,2})", "whole", _is_base64),
    (rf"(?P<value>0[xX]{_HEX}+)", "whole", _is_long_and_varied),
    (rf"(?<![0-9a-zA-Z])(?P<value>0[xX]{_HEX}+)(?![0-9a-zA-Z])", "keep"),
    # Part numbers, versions and measured values look similar, but identify nothing.
    (r"(?<![\w-])(?P<value>[1-9][0-9]{2}-[0-9A-Z]{3,9}-[0-9A-Z]{2,4}(?:-[0-9]{3})?)(?![\w-])", "keep"),
    (rf"(?<![\w.])(?P<value>{_VERSION}(?:[+-]{_BUILD})?)(?![\w-])", "keep"),
    (rf"(?<![\w.])(?<!\w-)(?P<value>[0-9]+[ \t]?(?:{_UNITS}|bytes?))(?![\w])", "keep"),
    (r"(?P<value>Linux ?version ?[0-9][\w.+~-]{0,80})", "keep"),
    # The name of a flight recorder file.
    (r"(?<![\w])(?P<value>[0-9]{8}T[0-9]{6}Z-[a-z0-9_]{1,60}\.jsonl\.gz)(?![\w])", "keep"),
    (r"(?<![\w.])(?P<value>[0-9]+\.[0-9]+)(?![\w]|\.[\w])", "keep"),
    (r"(?<![\w])(?P<value>V[0-9]{3}R[0-9]{3}C[0-9]{2}(?:SPC[0-9]{3})?(?:B[0-9]{3})?|[0-9]{3,6}base\w{1,12}|pci:v[0-9A-F]{8}d\w{8,48})(?![\w-])", "keep"),
    (r"(?<![\w])(?P<value>[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?Z?)(?![\w])", "keep"),
    (r"(?P<value>/(?:sys/(?:class|bus|devices|module|kernel|firmware)|proc/(?:[0-9]{1,7}|self|driver))/[^\s\"'|,;<>()]+)", "odd"),
    (r"(?<![\w.])(?P<value>[0-9]{10,20})(?=[\"']?[ \t]*(?:[,;|)(}\]]|$)|[ \t]+(?:of\b|[a-z_]{2,40}[ \t:=]{1,9}[0-9]))", "keep", _is_measured_value),
    # Names in JSON lists, JSON objects and XML attributes.
    (rf"(?i:[\"'](?:{_NAMES})s?\\{{0,4}}[\"'][ \t]*:[ \t\r\n]*\[)(?P<value>[^\]{{}}]{{1,400}})", "names"),
    (r"(?i:[\"'](?:user|owner|host|node)\\{0,4}[\"'][ \t]*:[ \t\r\n]*\{[^{}]{0,200}?[\"'](?:name|id)\\{0,4}[\"'][ \t]*:[ \t]*\\{0,4}[\"'])(?P<value>[^\"'\\]{1,200})", "names"),
    (r"(?i:<(?:node|host|user|server)\b[^<>]{0,200}?\b(?:id|name)=[\"'])(?P<value>[^\"']{1,200})", "names"),
    # Names that are recognized by the words before them.
    (rf"(?i:(?:{_NAMES}){_TO_VALUE}){_WORD_OF_A_TABLE}", "names"),
    (rf"(?i:(?:{_COMMANDS}){_TO_VALUE}){_REST_OF_VALUE}", "names"),
    (r"(?i:\b(?:(?:by|as|for|of) user |user (?=[\w.-]{1,64}\()|(?:[ug]id|groups)=[0-9]{1,10}\()|,[0-9]{1,10}\()(?P<value>[^\s,;:()]+)", "names"),
    # The doctor's lines with the names of this machine and the current user.
    (r"\btelemetry [\w.+-]{1,40} on (?P<value>[^\s,]{1,255})(?=, run as )", "names"),
    (r"\brun as (?P<value>[^\s,]{1,64})", "names"),
    (r", in the groups (?P<value>[^\n;:,]{1,400})", "names"),
    # Kernel messages, such as `pid=4242, name=python`.
    (r"(?i:\bpid[=: ]{1,2}'?[0-9]{1,10}'?[, ]{1,3}(?:name|comm|process)[=: ]{1,2})(?P<value>[^\s,;]+)", "names"),
    # Every value of an environment variable.
    (r"^(?:export )?(?!PCI_)[A-Z][A-Z0-9]*_[A-Z0-9_]+=(?P<value>\S+)$", "names"),
    # Paths, except for the pages of our documentation.
    (r"(?<![\w./~-])(?P<value>docs/(?:vendors/[a-zA-Z]+|agents|alerts|architecture|check|compatibility|configuration|fleet|install|kubernetes|metrics|outputs|owners|page|peaks|performance|profile|python|recordings|security|top|troubleshooting|web-configuration|writing-a-parser)\.md)(?![\w/])", "keep"),
    (r"(?P<value>[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s\"'<>|]+)", "names"),
    (r"(?<![\w])(?P<value>(?:[A-Za-z_][\w.+%-]{0,63}@|\w[\w.+%-]{0,63}@(?=[A-Za-z]))[\w.:-]*\w(?:/[\w./~-]*)?)", "names"),
    (r"(?<![\w)])(?P<value>(?:[A-Za-z]:\\{1,2}|\\{2,4}(?=\w+\\))[^\s\"'|,;<>]+)", "names"),
    (r"(?<![\w%)\]/<])(?P<value>[~.]{0,3}[\w.-]{0,80}/[^\s\"'|,;:<>()\[\]{}/=]+(?:/[^\s\"'|,;:<>()\[\]{}/=]*)+)", "names"),
    (r"(?<![\w%)\]./<])(?P<value>[~.]?/[^\s\"'|,;:<>()\[\]{}/=]+)", "names"),
    (r"(?<![\w.~])(?P<value>~[A-Za-z][\w.-]*)", "names"),
))  # fmt: skip

# These shapes are searched for first, even in the value after a key, because they are more precise than the key.
FIRST_SHAPES = _shapes(
    *(
        (rf"(?<![A-Za-z0-9_])(?P<value>{prefix}[{characters}]{{{min_length},2000}})(?![{characters}])", "whole")
        for prefix, characters, min_length in TOKENS
    ),
    (r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?P<value>[\\\sA-Za-z0-9+/=]{16,8000})", "each"),
    (rf"(?<![0-9a-zA-Z])MIG-(?P<value>GPU-{_UUID})/[0-9]{{1,2}}/[0-9]{{1,2}}(?![\w/])", "whole", _is_nonzero),
)

_KEY_TREATMENTS: tuple[tuple[str, Treatment], ...] = (
    (_SECRETS, "each"),
    (rf"{_SERIALS}|v?die[ _-]?id", "each"),
    (rf"{_NAMES}|{_COMMANDS}|processes|partition|cluster[ _-]?name", "names"),
)
_KEY_PATTERNS = tuple((re.compile(rf"(?:{keys})\Z", re.IGNORECASE), treatment) for keys, treatment in _KEY_TREATMENTS)
_MAX_KEY_LENGTH = 60


@functools.lru_cache(maxsize=4096)
def treatment_of_key(key: str) -> Treatment | None:
    """Return how to mask the value of this key, or None if the key is unknown."""
    if len(key) > _MAX_KEY_LENGTH:
        return None
    return next((treatment for pattern, treatment in _KEY_PATTERNS if pattern.search(key)), None)
