"""Identities in all their forms, and captures in which they are planted."""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from telemetry_daemon.masking.mask import Mask
from telemetry_parsers.codec.captures import capture_to_plain, encode_line
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Capture, Device, Output, Plain, Report


@dataclass(frozen=True)
class Plant:
    """A text, and the parts of it that must not be found after masking."""

    text: str
    secrets: tuple[str, ...]


_UUID = "9d1b7b3c-5e2a-4c7b-8f16-2a6c7e91d845"
_BARE_UUID = _UUID.replace("-", "")
_MAC = "d85ed38e1a2b"
_SERIALS = ("IT24HMDA9FAA", "MY97YL9BF9", "1564621913487", "92K15K624CV77394", "A718K39529931", "TRFU349994959791")
_PASSWORD = "Hunter2xyzzy"
_LONG_TOKEN = "q7Zt2Lm9Xw4Rk8Vb3Np6Yd1Hf5Gj7Cs2Ta"


def _pairs(secrets: Sequence[str], *forms: str) -> Iterator[Plant]:
    """Yield each form with the first secret in place of `@`; all secrets must be masked."""
    for form in forms:
        yield Plant(form.replace("@", secrets[0]), tuple(secrets))


def _each_alone(secrets: Sequence[str], *forms: str) -> Iterator[Plant]:
    for secret in secrets:
        yield from _pairs((secret,), *forms)


def _coloned(text: str, size: int, sign: str) -> str:
    return sign.join(text[start : start + size] for start in range(0, len(text), size))


_MACS = tuple(_coloned(_MAC, size, sign) for size, sign in ((2, ":"), (2, "-"), (4, "."), (12, "")))
_GUIDS = ("506b:4b93:71c4:f3ae", "0x506b4b9371c4f3ae", "506b4b9371c4f3ae")
_JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJtYXJsb3dlIn0.dBjftJeZ4CVPmB92K27uhbUJU1p1r"

PLANTS: tuple[Plant, ...] = (
    *_pairs((_UUID,), "@", "GPU-@", "MIG-@", "DCU-@", "{@}", "(@)", '"@"', "pod@", "kubepods/pod@", "/kubepods/burstable/pod@/x"),
    *_pairs((_UUID,), "uuid=@", "UUID : @", "urn:uuid:@", "<uuid>@</uuid>", "gpu[@]", "vgpu@up", "x@", "0@", "@,", "@:"),
    *_pairs((_UUID.upper(),), "@", "GPU-@", "Partition ID @"),
    *_pairs((_UUID.replace("-", "_"),), "kubepods-besteffort-pod@.slice", "pod@"),
    *_pairs((_BARE_UUID,), "@", "0x@", "machine-id @", "id:@", "overlay/@", "{@}", "cluster @ is up", "GPU-@"),
    *_each_alone(_MACS, "@", "MAC @", "link/ether @", "(@)", "mac=@", "eth0 @", "lladdr @", "HWaddr:@"),
    *_each_alone((_MACS[0].upper(), _MACS[3].upper()), "@", "enp1 @"),
    *_pairs((_MAC,), "enx@", "docker-@.scope"),
    *_pairs(("d8:5e:d3:ff:fe:8e:1a:2b",), "@", "EUI @"),
    *_pairs(("10.77.3.17",), "@", "@:9100", "@/24", "(@)", "driver @", "version @", "library @:80", "tcp://@:29500", "host=@,"),
    *_pairs(("10.77.3.17",), "Driver Version: @", "v@", "Firmware @", "smi @", "[@]", "<@>", "@->", "addr:@", "'@'"),
    *_pairs(("81.62.69.142",), "@", "@:443", "from @ port 22", "peer @;", "driver of host @", "@/32", "https://@/x"),
    *_pairs(("172.21.9.83",), "nccl socket @<4711>", "MASTER_ADDR=@", "at @.", "ip: @"),
    *_each_alone(("2001:db8:85a3::8a2e:371:7334", "fe81::da5e:d3ff:fe8e:1a2b"), "@", "[@]:9100", "@/64", "@%eth0", "(@)", "inet6 @"),
    *_pairs(("2001:db8:85a3:1:2:8a2e:371:7334",), "@", "http://[@]/", "::ffff @"),
    *_each_alone(_GUIDS, "@", "node_guid: @", "sys_image_guid @", "Port GUID: @", "(@)"),
    *_each_alone(_SERIALS, "@", "S/N: @", "S/N @", "Serial #@", "Serial # : @", "序列号: @", "序列号：@", "SN:@", "serial=@"),
    *_each_alone(_SERIALS[:2], "Serial Number @", '"serial": "@"', "<serial>@</serial>", "board @ failed", "[@]", "asset tag: @"),
    *_pairs(("8XK2Q13",), "Service Tag: @", "@"),
    *_pairs(("PCB752715-9916",), "SN: @", "oam @"),
    *_pairs(("0x36862957A1B2",), "Chip ID: @", "ECID: @", "@", "chip_id=@"),
    *_pairs(("499921D4 2149A199 E54BDDD4", "499921D4", "E54BDDD4"), "Die ID : @", "VDie ID: @"),
    *_pairs(("5999c599a1b2c3d4",), "wwn-0x@", "naa.@", "WWN: @", "wwid:@", "eui.@"),
    *_pairs(("S4EWNX9R723456",), "/dev/disk/by-id/nvme-Samsung_@", "/dev/disk/by-id/ata-@-part1"),
    *_each_alone(("gpu-node-917", "dgx-a100-93", "worker712", "hpc-login72", "ip-10-77-3-17"), "@", "on @:", "@:29500", "(@)"),
    *_each_alone(("zebrahost.corp.example", "node917.zebracluster.local"), "@", "@:443", "https://@/x", "peer=@"),
    *_pairs(("zebrahost",), "Hostname: @", "host=@", "hostname=@", "node_name: @", "server_id: @", "ssh://@/", "主机名：@"),
    *_pairs(("marlowe",), "/home/@", "/data/users/@/x", "/mnt/nfs/@/run.py", "/Users/@/x", "~@/x", "C:\\Users\\@\\x", "user=@"),
    *_pairs(("marlowe",), "User: @", "@@zebrahost.example".replace("@@", "@\x00"), "ssh://@:x@y", "SLURM_JOB_USER=@", "--user @"),
    *_pairs(("marlowe",), "/scratch/@", "/lustre/project/@/ckpt", "owner: @", "用户：@", "./work/@/a.py", "login=@", "export LOGNAME=@"),
    *_pairs((_PASSWORD,), "password=@", "--password @", "PASSWORD: @", "passwd=@;", "--db-password=@", "pwd=@", "密码：@"),
    *_pairs((_PASSWORD,), "https://u:@\x00h.example/x", "token=@", "--token @", "--token=@", "api_key=@", "X-Api-Key: @", "secret: @"),
    *_pairs((_PASSWORD,), "?token=@&x=1", "AWS_SECRET_ACCESS_KEY=@", "redis://:@\x00db:6379/0", "HF_TOKEN=@", "access_key=@"),
    *_pairs((_LONG_TOKEN,), "Authorization: Bearer @", "bearer @", "Basic @", "ghp_@", "hf_@", "sk-@", "xoxb-@", "glpat-@", "@"),
    *_pairs((_JWT, _JWT.split(".")[2]), "@", "jwt @", "Cookie: session=@", "Authorization: Bearer @"),
    *_pairs(("AKIA5Q7Z2LM9XW4RK8VB",), "@", "AWS_ACCESS_KEY_ID=@", "key @"),
    *_pairs(("7f3a9c1e5b7d" * 5 + "abcd",), "@", "docker/@", "cri-containerd-@.scope", "sha256:@", "container_id=@"),
    *_pairs(("7d9f8b6c5-x2x4z",), "train-llm-@", "pod/train-llm-@", "pod_name=train-llm-@"),
    *_pairs(("marlowe", "zebrahost"), "marlowe@zebrahost.example".replace("@", "\x00"), "mailto:marlowe\x00zebrahost.example"),
    *_pairs(("marlowe",), "uid=1001(@)", "running as user @", "user @(1001)", "NVRM: Xid: 79, pid=4242, name=@, x"),
    *_pairs((_PASSWORD,), "-p @", "-p@"),
    *_pairs(("MIIEpQIBzzKCAQEA7bq2kL9fXv/8Wd",), "@+3hT5mRn0yJcPqZs1uGiEoA==", "ssh-rsa @+3hT5mRn0yJcPqZs1uGiEoA== x"),
    *_pairs(("9d1b7b3c",), "GPU-@", "[GPU-@]"),
    *_pairs(("10.77.3.17",), "ip@eth0"),
    *_pairs((_MACS[0],), "eth0@up", "0@"),
    *_pairs(("zebrahost", "marlowe"), "marlowe\x00@:~$ ", "[marlowe\x00@ ~]$ smi"),
)  # fmt: skip
PLANTS = tuple(Plant(plant.text.replace("\x00", "@"), plant.secrets) for plant in PLANTS)

# After a key, these look like a version or a value.
_AMBIGUOUS = re.compile(r"(?:81\.62\.69\.142|1564621913487)(?![0-9:/])")

# A function that puts a plant into a line.
Insertion = Callable[[str, str], str]


def _in_place_of_a_word(line: str, plant: str) -> str:
    words = line.split(" ")
    filled = [position for position, word in enumerate(words) if word]
    if not filled:
        return plant
    words[filled[len(filled) // 2]] = plant
    return " ".join(words)


def _on_a_line_of_its_own(line: str, plant: str) -> str:
    return f"{line}\n{plant}"


INSERTIONS: tuple[Insertion, ...] = (
    lambda line, plant: f"{line} {plant}",
    lambda line, plant: f"{plant} {line}",
    _on_a_line_of_its_own,
    _in_place_of_a_word,
    lambda line, plant: line.replace(": ", f": {plant} ", 1),
    lambda line, plant: f"{line},{plant}",
)


def planted(capture: Capture, plants: Sequence[Plant], insert: Insertion) -> Capture:
    """Return the capture with a plant in every line, every text of its data and every error."""
    turn = itertools.cycle(plants)

    def line_with(line: str) -> str:
        text = next(turn).text
        return (_on_a_line_of_its_own if _AMBIGUOUS.search(text) else insert)(line, text)

    def lines(text: str) -> str:
        return "\n".join(map(line_with, text.split("\n"))) if text else text

    def plain(data: Plain) -> Plain:
        if isinstance(data, dict):
            return {key: value if key == "base64" else plain(value) for key, value in data.items()}
        if isinstance(data, list):
            return [plain(item) for item in data]
        return lines(data) if isinstance(data, str) else data

    outputs = tuple(
        replace(output, text=lines(output.text), stderr=line_with(output.stderr), data=plain(output.data))
        for output in capture.outputs
    )
    failure = None if capture.failure is None else replace(capture.failure, text=line_with(capture.failure.text))
    return replace(capture, outputs=outputs or (Output(stderr=line_with("")),), failure=failure)


def with_one_plant(capture: Capture, number: int, plant: Plant, insert: Insertion) -> Capture:
    """Return the capture with a plant in one line of its first text; the other lines are unchanged."""
    texts = [position for position, output in enumerate(capture.outputs) if output.text]
    if not texts:
        return planted(capture, (plant,), insert)
    output = capture.outputs[texts[0]]
    lines = output.text.split("\n")
    lines[number % len(lines)] = insert(lines[number % len(lines)], plant.text)
    changed = replace(output, text="\n".join(lines))
    return replace(capture, outputs=(*capture.outputs[: texts[0]], changed, *capture.outputs[texts[0] + 1 :]))


def check_planted(parser: Parser, capture: Capture) -> None:
    """Check that masking removes all planted secrets and does not change the report."""
    before = parser.parse(capture)
    hidden = Mask(b"of these tests", ()).masked_capture(capture, before)
    assert left_in(hidden) == []
    assert_same_readings(before, parser.parse(hidden))


def left_in(capture: Capture) -> list[str]:
    line = encode_line(capture_to_plain(capture)).lower()
    return sorted({secret for plant in PLANTS for secret in plant.secrets if secret.lower() in line})


def assert_same_readings(before: Report, after: Report) -> None:
    """Compare numbers, labels, absences, problems and processes, and which devices are the same."""
    assert after.outcome == before.outcome
    assert after.readings == before.readings
    assert len(after.problems) == len(before.problems)
    assert [process.pid for process in after.processes] == [process.pid for process in before.processes]
    assert [_kept(device) for device in after.devices] == [_kept(device) for device in before.devices]
    for word in ("uuid", "serial"):
        old, new = ([getattr(device, word) for device in report.devices] for report in (before, after))
        assert [old.index(item) for item in old] == [new.index(item) for item in new]


def _kept(device: Device) -> tuple[object, ...]:
    return device.vendor, device.index, device.bus_id, device.partition, device.parent, device.up
