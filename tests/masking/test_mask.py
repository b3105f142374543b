"""Masking: a recording keeps every reading and nothing that identifies the machine."""

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kits.captures import ROOT, Case, own_cases, registered_parsers, shared_files, shared_text, text_capture
from kits.planted_identities import INSERTIONS, PLANTS, assert_same_readings, check_planted, planted, with_one_plant
from telemetry_daemon.masking.mask import Mask, local_names
from telemetry_parsers.codec.captures import capture_to_plain, encode_line
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Capture, Command, Device, Failure, Files, Library, Output, Process, Report

KEY = b"of these tests"
HOST = "node7.example.org"
PARSERS = registered_parsers()


def masked(*outputs: Output, report: Report | None = None) -> tuple[Output, ...]:
    capture = Capture("any", "any", Library("any"), outputs)
    return Mask(KEY, (HOST, "node7")).masked_capture(capture, report).outputs


def masked_text(text: str) -> str:
    return masked(Output(text=text))[0].text


def shape(text: str) -> str:
    return re.sub(r"[A-Z]", "A", re.sub(r"[a-z]", "a", re.sub(r"[0-9]", "0", text)))


SECRETS = (
    ("Serial Number                  : IT24HMDA9FAA\n", "IT24HMDA9FAA"),
    ('{"card0": {"Unique ID": "0x18f68e602b8a790f", "x": "1"}}', "18f68e602b8a790f"),
    ("  Uuid:                    GPU-18f68e602b8a790f               \n", "18f68e602b8a790f"),
    ("unique_id 1798419765837265167\n", "1798419765837265167"),
    ("192.168.100.0  *  255.255.255.0   U  0 0 0 eth0\n", "192.168.100.0"),
    ("report of node7.example.org, 8 cards\n", "node7.example.org"),
    ("node7: 8 cards\n", "node7"),
    ('token "Hunter2xyzzy" refused\n', "Hunter2xyzzy"),
    ("the password 'hunter' is wrong\n", "hunter"),
    ("smi --token 'Hunter2 xyzzy' -a\n", "Hunter2 xyzzy"),
    ("wrong password Hunter2xyzzy\n", "Hunter2xyzzy"),
    ("api key: hunter, pass=xyzzy\n", "xyzzy"),
    ("private key = hunter\n", "hunter"),
    ("Authorization: Token hunter\n", "hunter"),
    ('password: "my pass phrase"\n', "my pass phrase"),
    (r'detail="it printed {\"password\": \"hunter\", \"serial\": \"QX7AB\"}"', "hunter"),
    (r'detail="failed\nnode7 is down"', "node7"),
    ("of GPU-9d1b7b3c-5e2a-4c7b-8f16-2a6c7e…\n", "8f16-2a6c7e"),
    ("of 9d1b7b3c-5e2a-4c…\n", "9d1b7b3c-5e2a-4c"),
    ("uid=1000(maria) gid=1000(maria) groups=1000(maria),2000(physics)\n", "physics"),
    ("PBS_JOBID=482131.zebra\n", "zebra"),
    ("telemetry 0.2.0 on qv, run as wu, in the groups wu video\n", "qv"),
    ("run as wu, in the groups wu video\n", "wu"),
    ("10.0.0.1\n", "10.0.0.1"),
    ("see /data/anna/docs/install.md\n", "anna"),
    ("see docs/anna.md and docs/install.md\n", "anna"),
    ("100.100.100.100\n", "100.100.100.100"),
)
NOT_SECRET = (
    "Serial Number : N/A\n",
    "Uuid: GPU-XX\n",
    '"Unique ID": "0x0"\n',
    "PRODUCT_SERIAL: <redacted>\n",
    "GPU[0] : PCI Bus: 0000:1A:00.0\n",
    "Driver Version: 1.82.22.23\n",
    "npu-smi 23.0.2.1   Version: 24.1.0.3\n",
    "netmask:255.255.255.0\n",
    "listening on 127.0.0.1 and ::1\n",
    "vram ::    total: 17163091968 B       used: 9437184 B\n",
    "2026-05-28 21:26:40 UTC, 12:34:56\n",
    "Temp: 41 ℃, Power: 93.0W, snapshot 7, GPU 8, gpu70, card3\n",
    "nodes and hosts\n",
    "00000000000000000000000000000000\n",
    "mask 0x11111111111111111111111111111111\n",
    "Card SKU: 113-D65209-073, 900-2G183-A800-001\n",
    "/sys/class/drm/card0/device/hwmon/hwmon4/temp1_input\n",
    "/opt/rocm/bin/python3.11 -m vllm serve --port 8000\n",
    "VRAM Total Memory (B): 206158430208, 1564621013400 uJ\n",
    "FW 1.2.3-rc4, tool 24.6.2+2b02a07, V100R001C15SPC012B220\n",
    "0x00000000fcd9ffff 0x81AF8000 18446744073709551615\n",
    "free 56674405818 bytes in /var/lib/telemetry, used 12345678901 of 99999999991 bytes\n",
    "tx_bytes 12345678901 rx_bytes 99999999991\n",
    "energy_accumulator (15.259uJ (2^-16)): 209852498314\n",
    "Linuxversion6.14.0-24-generic, Linux version 6.8.0-1021-azure-fde\n",
    "telemetry top --replay /var/lib/telemetry/flights/20261126T105327Z-xid_31.jsonl.gz\n",
    *(f"remedy: see {path.relative_to(ROOT)}, or docs/owners.md has it\n" for path in ROOT.glob("docs/**/*.md")),
    "/dev/dri/renderD*, /proc/meminfo, /opt/tops/bin, /dev/mkfd, /dev/xpuctrl, /dev/cambricon_ctl, /etc/modprobe.d\n",
    "the daemon and this command have different settings for sources, paths, parsers or ranks\n",
    "token expired, unexpected token in line 3\n",
    "selftest: pass=12 fail=0, open /dev/mxcd failed\n",
    "power: 300 W",
    "tokens_total 123",
    "Node  0: 12",
    "PASS: 3",
    "License: Apache-2.0",
    "driver version 1.2.3.4",
    "Node  Memory\n0     512 MiB",
    "sk-hynix HBM3",
)


def test_secret_is_replaced_by_a_text_of_its_shape() -> None:
    for text, secret in SECRETS:
        result = masked_text(text)
        assert secret.lower() not in result.lower()
        assert shape(result) == shape(text)
        assert masked_text(text) == result


def test_harmless_text_is_not_masked() -> None:
    for text in NOT_SECRET:
        assert masked_text(text) == text


def test_each_form_of_an_identity_gets_the_same_stand_in() -> None:
    whole = int("18f68e602b8a790f", 16)
    sysfs, tool, rocminfo, kfd = masked(
        Output(name="/sys/class/drm/card0/device/unique_id", text="18f68e602b8a790f\n"),
        Output(text="GPU[0]\t\t: Unique ID: 0x18F68E602B8A790F\n"),
        Output(text="  Uuid:                    GPU-18f68e602b8a790f\n"),
        Output(name="/sys/class/kfd/kfd/topology/nodes/1/properties", text=f"simd_count 440\nunique_id {whole}\n"),
    )
    stand_in = sysfs.text.strip()
    assert stand_in != "18f68e602b8a790f"
    assert tool.text == f"GPU[0]\t\t: Unique ID: 0x{stand_in.upper()}\n"
    assert rocminfo.text == f"  Uuid:                    GPU-{stand_in}\n"
    assert kfd.text == f"simd_count 440\nunique_id {int(stand_in, 16)}\n"


def test_a_leading_zero_is_printed_or_not_and_the_number_is_the_same() -> None:
    sysfs, tool, kfd = masked(
        Output(name="/sys/class/drm/card0/device/unique_id", text="084cafeae17e7696\n"),
        Output(text="GPU[0]\t\t: Unique ID: 0x84cafeae17e7696\n"),
        Output(name="/sys/class/kfd/kfd/topology/nodes/1/properties", text=f"unique_id {0x084CAFEAE17E7696}\n"),
    )
    stand_in = sysfs.text.strip()
    assert tool.text == f"GPU[0]\t\t: Unique ID: 0x{stand_in[1:]}\n"
    assert kfd.text == f"unique_id {int(stand_in, 16)}\n"


def test_addresses_of_a_network_get_different_stand_ins() -> None:
    addresses = [f"10.0.0.{number}" for number in range(1, 255)]
    stand_ins = masked_text("\n".join(addresses)).split("\n")
    assert len(set(stand_ins)) == len(addresses)
    assert not set(stand_ins) & set(addresses)


def test_old_mig_instance_has_one_stand_in_after_a_key_and_in_a_text() -> None:
    uuid = "MIG-GPU-9d1b7b3c-5e2a-4c7b-8f16-2a6c7e91d845/7/0"
    keyed, message, gpu = masked(
        Output(data={"uuid": uuid}), Output(text=f"{uuid} is lost\n"), Output(text=f"{uuid[4:44]} is there\n")
    )
    assert message.text == f"{keyed.data['uuid']} is lost\n"
    assert gpu.text == f"{keyed.data['uuid'][4:44]} is there\n"
    assert "9d1b7b3c" not in message.text


def test_users_of_a_map_and_requests_of_plugins_are_masked() -> None:
    assert "anna" not in str(masked(Output(data={"users": {"1000": "anna"}})))
    asked = Command((("smi", "--token", "Hunter2xyzzy"),), folders=("/home/marlowe/bin",))
    globs = Files(("/home/marlowe/*",), links=("/home/marlowe/x",))
    for request in (asked, globs):
        text = str(Mask(KEY, ()).masked_capture(Capture("any", "any", request), None))
        assert "Hunter2xyzzy" not in text
        assert "marlowe" not in text


def test_output_names_of_readers_are_not_masked() -> None:
    for name in ("slurm", "flux", "pbs"):
        capture = Capture(name, "jobs", Library("jobs", (name,)), (Output(name, data=[]),))
        assert Mask(KEY, (name,)).masked_capture(capture, None) == capture


def test_host_named_like_its_cards_changes_no_model() -> None:
    output = Output(text="NVIDIA H100 80GB HBM3\nrun on h100\n", data={"hostname": "h100"})
    report = Report(devices=(Device("nvidia", model="NVIDIA H100 80GB HBM3"),))
    hidden = Mask(KEY, ("h100",)).masked_capture(Capture("any", "any", Library("any"), (output,)), report).outputs[0]
    assert hidden.text.startswith("NVIDIA H100 80GB HBM3\n")
    assert "h100" not in f"{hidden.text}{hidden.data}"


def test_a_long_word_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    word, hashed, blake2b = "0123456789abcdef" * 4096, 0, hashlib.blake2b

    def counted(data: bytes, *, key: bytes) -> object:
        nonlocal hashed
        hashed += len(data)
        return blake2b(data, key=key)

    monkeypatch.setattr("telemetry_daemon.masking.disguise.hashlib.blake2b", counted)
    assert masked_text(word) != word
    assert len(word) <= hashed < 10 * len(word)


def test_data_are_masked_by_their_keys() -> None:
    data = {
        "gpus": [
            {"uuid": "GPU-b3d94c07-1e58-4a92-8c6f-27f0a9d50400", "serial": "1564621013400", "name": "A100"},
            {"uuid": "GPU-b3d94c07-1e58-4a92-8c6f-27f0a9d50400", "serial": 0, "total": 85899345920},
        ],
        "driver": "12.95.18.6",
        "node7": {"device_ip": "10.0.0.7", "said": "node7"},
        "metrics": {"base64": "eAABAygA/////1234567890abcdef1234567890abcdef+AAA="},
    }
    first, second = (result := masked(Output(data=data))[0].data)["gpus"]
    assert first["uuid"] == second["uuid"] != data["gpus"][0]["uuid"]
    assert first["serial"] != "1564621013400"
    assert (first["name"], second["serial"], second["total"]) == ("A100", 0, 85899345920)
    assert "10.0.0.7" not in json.dumps(result)
    assert "node7" not in json.dumps(result)
    assert result["metrics"] == data["metrics"]


def test_a_serial_number_without_a_key_is_known_from_its_report() -> None:
    output = Output(text="oam TPXABC up\n")
    report = Report(devices=(Device("amd", serial="TPXABC"),))
    assert masked(output)[0].text == output.text
    assert "TPXABC" not in masked(output, report=report)[0].text


def test_common_process_names_are_kept() -> None:
    rows = "| 0  4242  python3 finetune.py --config a.yaml | 512MiB |\n| 0  4243  zebra  | zebra |\nzebra crossing\n"
    processes = (Process(0, 4242, "python3 finetune.py --config a.yaml"), Process(0, 4243, "zebra"))
    first, second, third = masked(Output(text=rows), report=Report(processes=processes))[0].text.splitlines()
    assert re.fullmatch(r"\| 0  4242  python3 (?!finetune)[a-z]{8}\.py --config a\.yaml \| 512MiB \|", first)
    assert "zebra" not in second
    assert third == "zebra crossing"


def test_columns_below_a_heading_that_names_identities_are_masked() -> None:
    text = "序列号,温度,用户\nAB7,57.0,maria\nAC8,58.0,root\n\nother,x,y\n"
    first, *rows, blank, other = masked_text(text).splitlines()
    assert (first, [row.split(",")[1] for row in rows], blank, other) == (
        "序列号,温度,用户",
        ["57.0", "58.0"],
        "",
        "other,x,y",
    )
    assert not re.search("AB7|AC8|maria", "".join(rows))
    assert rows[1].endswith(",root")


def test_one_device_in_many_forms_is_one_device_in_all() -> None:
    forms = ("d8:5e:d3:8e:1a:2b", "d8-5e-d3-8e-1a-2b", "d85e.d38e.1a2b", "D85ED38E1A2B")
    assert len({re.sub("[^0-9a-f]", "", masked_text(form).lower()) for form in forms}) == 1


def test_names_of_this_machine_are_masked_in_any_text() -> None:
    capture = Capture("any", "any", Library("any"), (Output(text="for tiger: 3 gpu jobs of maria, gpu07, max 5\n"),))
    mask = Mask(KEY, ("tiger", "maria", "gpu", "max", "gpu07"))
    text = mask.masked_capture(capture, None).outputs[0].text
    assert re.fullmatch(r"for (?!tiger)\w{5}: 3 gpu jobs of (?!maria)\w{5}, (?!gpu)[a-z]{3}0\d, max 5\n", text)


def test_the_names_of_a_machine_are_found(tmp_path: Path) -> None:
    hosts, users, groups = tmp_path / "hosts", tmp_path / "passwd", tmp_path / "group"
    hosts.write_text("127.0.0.1 localhost\n10.0.0.7 tiger.example tig # the large one\n")
    users.write_text(
        "root:x:0:0::/root:/bin/sh\nmaria:x:1001:1001::/home/maria:/bin/sh\nnobody:x:65534:1::/:/bin/no\nodd\n"
        "slurm:x:64030:64030::/nonexistent:/bin/no\nldap:x:1200034:100::/home/ldap:/bin/sh\n"
    )
    groups.write_text("video:x:44:maria\nphysics:x:2000:maria\n")
    found = local_names(hosts, users, {"SUDO_USER": "ada"}, groups)
    assert found - set(os.uname().nodename.split(".")) - {os.uname().nodename} == {
        "localhost", "tiger.example", "tiger", "tig", "maria", "ldap", "physics", "ada",
    }  # fmt: skip
    none = tmp_path / "none"
    assert local_names(none, none, {}, none)


def test_requests_are_masked() -> None:
    for parser in PARSERS.values():
        for poll in parser.polls:
            capture = Capture(parser.name, poll.name, poll.request)
            assert Mask(KEY, ()).masked_capture(capture, None) == capture
    asked = Capture("any", "any", Command((("smi", "--token=Hunter2"),), env=(("SMI_PASSWORD", "Hunter2"),)))
    assert "Hunter2" not in str(Mask(KEY, ()).masked_capture(asked, None))


def test_names_failures_and_errors_are_masked() -> None:
    capture = Capture(
        "any", "any", Files(("/x",)),
        (Output(name="/home/maria/bin/smi", stderr="node7: no\n"),),
        Failure("failed", "exit_status", "smi on node7 failed"),
    )  # fmt: skip
    result = encode_line(capture_to_plain(Mask(KEY, ("node7",)).masked_capture(capture, None)))
    assert "maria" not in result
    assert "node7" not in result


def test_two_recordings_cannot_be_compared() -> None:
    output = Output(text="Serial Number: IT24HMDA9FAA")
    capture = Capture("any", "any", Library("any"), (output,))
    first, other = (Mask(key, ()).masked_capture(capture, None).outputs for key in (b"one", b"other"))
    assert first != other


def test_stand_in_differs_from_all_identities() -> None:
    """Some uuids are all zeros except one digit, for which only nine stand-ins exist."""
    uuids = [f"00000000-0000-0000-0000-00000000000{number}" for number in (7, 8)]
    for key in range(40):
        output = Output(text="\n".join(uuids))
        capture = Capture("any", "any", Library("any"), (output,))
        _, second = Mask(bytes([key]), ()).masked_capture(capture, None).outputs[0].text.splitlines()
        assert second not in uuids


def test_short_values_get_different_stand_ins() -> None:
    text = "".join(f"Serial Number: {number}\n" for number in (11, 12, 13, 14, 15, 16, 17, 18, 19))
    assert len(set(masked_text(text).splitlines())) == 9


# All captures by folder; the number of each selects the planted identities.
FILES: dict[str, list[tuple[int, Case | Path]]] = {}
for _number, _file in enumerate([*own_cases(), *shared_files()]):
    FILES.setdefault(_file.tool if isinstance(_file, Case) else _file.parent.name, []).append((_number, _file))


def _few(files: list[tuple[int, Case | Path]]) -> list[tuple[int, Case | Path]]:
    ours = [(number, file) for number, file in files if isinstance(file, Case)]
    return ours[:: len(ours) // 4 + 1]


each_folder = pytest.mark.parametrize("folder", sorted(FILES))
few_or_all = pytest.mark.parametrize(
    "chosen", [pytest.param(_few, id="few"), pytest.param(list, id="all", marks=pytest.mark.long)]
)
Selection = Callable[[list[tuple[int, Case | Path]]], list[tuple[int, Case | Path]]]


def _parsers(folder: str) -> list[Parser]:
    return [PARSERS[folder]] if folder in PARSERS else list(PARSERS.values())


def _captures(file: Case | Path, parser: Parser) -> list[Capture]:
    return file.captures(parser) if isinstance(file, Case) else [text_capture(parser, shared_text(file))]


@few_or_all
@each_folder
def test_a_masked_capture_has_the_same_readings_and_no_identity(folder: str, chosen: Selection) -> None:
    for _, file in chosen(FILES[folder]):
        for parser in _parsers(folder):
            mask = Mask(KEY, (HOST,))
            for capture in _captures(file, parser):
                before = parser.parse(capture)
                hidden = mask.masked_capture(capture, before)
                after, line = parser.parse(hidden), encode_line(capture_to_plain(hidden))
                assert_same_readings(before, after)
                assert [device.model for device in after.devices] == [device.model for device in before.devices]
                for identity in {text for device in before.devices for text in (device.uuid, device.serial) if text}:
                    if len(identity) > 5 and re.search(r"[1-9]", identity):
                        assert identity not in line


def test_planted_identity_is_found_after_any_text() -> None:
    for plant in PLANTS:
        text = f"it said\n{plant.text}\n57.0C"
        result = masked_text(text)
        assert [secret for secret in plant.secrets if secret.lower() in result.lower()] == [], plant.text
        assert shape(result) == shape(text), plant.text


@few_or_all
@each_folder
def test_identities_in_every_line_are_masked_and_readings_are_kept(folder: str, chosen: Selection) -> None:
    """Uses a fixed sample; `make fuzz` plants all identities everywhere."""
    for number, file in chosen(FILES[folder]):
        parsers, start = _parsers(folder), number * 37 % len(PLANTS)
        parser, plants = parsers[number % len(parsers)], (*PLANTS[start:], *PLANTS[:start])
        for capture in _captures(file, parser)[:2]:
            check_planted(parser, planted(capture, plants, INSERTIONS[number % len(INSERTIONS)]))
            with_one = with_one_plant(capture, number, plants[1], INSERTIONS[(number + 1) % len(INSERTIONS)])
            check_planted(parser, with_one)
