"""Texts in which the format shows the secrets: the parts that are kept and masked."""

import pytest

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.config.table import effective_toml
from telemetry_daemon.doctor.bundle import masked_page, masked_settings, masked_unit, redacted_web_config
from telemetry_daemon.masking.mask import Mask

SECRETS = ("marlowe", "zebrahost", "Hunter2xyzzy", "10.77.3.17", "9d1b7b3c", "/mnt/nfs/zebra")


MASK = Mask(b"of these tests", ())


def check(text: str, kept: tuple[str, ...]) -> None:
    assert [secret for secret in SECRETS if secret.lower() in text.lower()] == []
    assert [word for word in kept if word not in text] == []


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('level = "info" # of marlowe, 10.77.3.17', ('level = "info"',)),
        ('allowed_hosts = ["zebrahost", "marlowe"]', ("allowed_hosts = [",)),
        ('listen_address = ["10.77.3.17:19820"]', (":19820",)),
        ('path = "/mnt/nfs/zebra#1/x"  # Hunter2xyzzy', ("path = ",)),
        ('url = "https://marlowe:Hunter2xyzzy@zebrahost.example/x"', ("url = ",)),
    ],
)
def test_configuration_is_masked(text: str, kept: tuple[str, ...]) -> None:
    defaults = effective_toml(Settings())
    assert masked_settings(defaults, MASK) == defaults
    check(masked_settings(text, MASK), kept)


def test_unit_is_masked() -> None:
    text = "[Service]\nExecStart=/usr/bin/telemetry serve\nEnvironment=A=Hunter2xyzzy \"B=marlowe x\" 'C=zebrahost'\n  Environment=D=10.77.3.17\n"
    shown = masked_unit(text, MASK)
    check(shown, ("ExecStart=/usr/bin/telemetry serve", "Environment=A=removed B=removed C=removed", "D=removed"))
    shown = masked_unit("[Service]\nEnvironment=A=x \\\n   B=Hunter2xyzzy\nGroup=marlowe\n", MASK)
    check(shown, ("Environment=A=removed B=removed\nGroup=",))


def test_job_number_is_masked_as_in_a_recording() -> None:
    text = (
        'x{owner_kind="job",owner="482131",job_id="482131",user="marlowe"} 1\n'
        'x{owner_kind="pod",owner="zebrahost",user="marlowe"} 1\n'
    )
    check(masked_page(text, MASK), ('owner="482131",job_id="482131"',))


def test_page_is_masked() -> None:
    sample = 'accelerator_energy_joules_total{vendor="amd",device="0",model="AMD INSTINCT MI210"} 68702699520123'
    text = (
        f'# HELP x marlowe is no label\n{sample}\naccelerator_info{{uuid="GPU-9d1b7b3c-5e2a-4c7b-8f16-2a6c7e91d845"}} 1\n'
        'accelerator_allocation_ratio{owner_kind="pod",owner="zebrahost",pod_name="marlowe",basis="given"} 1\n'
        'accelerator_process_memory_bytes{pid="4242",name="marlowe",user="marlowe"} 1234567890123\n'
    ).replace("marlowe is no label", "is no label")
    shown = masked_page(text, MASK)
    check(shown, (sample, "# HELP x is no label", 'owner_kind="pod"', 'basis="given"', 'pid="4242"', "1234567890123"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            (
                "tls_server_config:\n  cert_file: /mnt/nfs/zebra.crt\n  min_version: TLS12\n  prefer_server_cipher_suites: true\n"
                "  cipher_suites: [TLS_AES_128_GCM_SHA256, marlowe]\n  client_auth_type: RequireAndVerifyClientCert\n"
            ),
            (
                "tls_server_config:\n  cert_file: removed\n  min_version: TLS12\n  prefer_server_cipher_suites: True\n"
                "  cipher_suites: [TLS_AES_128_GCM_SHA256, removed]\n  client_auth_type: RequireAndVerifyClientCert\n"
            ),
        ),
        ("basic_auth_users:\n  marlowe: $2y$10$abc\n  b: x\n", "basic_auth_users: 2 removed\n"),
        ("10.77.3.17: x\nrate_limit:\n  burst: 5\n", "removed: removed\nrate_limit:\n  burst: 5\n"),
        ("marlowe", "removed\n"),
        ("a: [", "the file is not YAML\n"),
    ],
)
def test_web_configuration_is_redacted(text: str, expected: str) -> None:
    shown = redacted_web_config(text.encode())
    assert shown == expected
    check(shown, ())
