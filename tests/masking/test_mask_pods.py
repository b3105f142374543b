"""A masked recording of the kubelet tells nobody's pods, and still says which cards which owner has."""

from __future__ import annotations

import pytest

from kits.captures import own_cases
from telemetry_daemon.masking.mask import Mask
from telemetry_parsers.codec.captures import capture_to_plain, encode_line
from telemetry_parsers.model import Capture, Failure, Output, Plain
from telemetry_parsers.owners.kubelet import PARSER
from telemetry_parsers.ownership import Claim

PODS = PARSER.polls[0]
UID = "9d1b7b3c-5e2a-4c7b-8f16-2a6c7e91d845"
SECRETS = (UID, "ab12" * 16, "zebra", "merger", "quokka", "fraud", "acme", "marlowe", "8f3kq")


def masked(capture: Capture) -> Capture:
    return Mask(b"k" * 32, ()).capture(capture, None if capture.failure else PARSER.parse(capture))


def captured(pod_name: str, container: str, namespace: str) -> Plain:
    """A pod with a card, and all that lies on the node about it."""
    place = {"namespace": namespace, "pod_name": pod_name}
    devices = [{"resource": "acme.com/gpu", "device": "3"}, {"resource": "nvidia.com/gpu", "device": f"GPU-{UID}"}]
    return {
        "pods": [{**place, "containers": [{"container_name": container, "devices": devices, "drawn": []}]}],
        "resources": ["acme.com/gpu"],
        "folders": [{**place, "pod_uid": UID}],
        "links": [{**place, "container_name": container, "container_id": "ab12" * 16}],
        "living_pod_uids": [UID],
    }


@pytest.mark.parametrize(
    ("pod_name", "container", "namespace"),
    [
        ("zebra-merger-7d9f8c6b5-8f3kq", "quokka", "fraud"),
        ("quokka-marlowe-0", "zebra-merger", "acme-fraud"),
        ("merger.zebra", "fraud-1", "acme"),
    ],
)
def test_names_of_pods_are_hidden_and_go_on_joining(pod_name: str, container: str, namespace: str) -> None:
    capture = Capture(
        "kubelet", "pods", PODS.request, (Output("pods", status=0, data=captured(pod_name, container, namespace)),)
    )
    hidden = masked(capture)
    line = encode_line(capture_to_plain(hidden)).lower()
    assert [secret for secret in SECRETS if secret in line] == []
    claims = PARSER.parse(hidden).claims
    assert shapes(claims) == shapes(PARSER.parse(capture).claims)
    assert {claim.lives for claim in claims} == {True}
    assert [key.partition(":")[0] for key in claims[0].keys] == ["podname", "container", "pod"]


def test_what_a_kubelet_says_hides_its_names_too() -> None:
    failure = Failure("failed", "exit_status", 'it refuses (gRPC status 2: pod "zebra-7d9f8c6b5-8f3kq" not found)')
    assert "8f3kq" not in str(masked(Capture("kubelet", "pods", PODS.request, (), failure)))


def shapes(claims: tuple[Claim, ...]) -> list[object]:
    """What the claims say, whatever the names and numbers of cards and owners are."""
    numbers: dict[str, int] = {}
    return [
        (
            numbers.setdefault(claim.owner.name, len(numbers)),
            [
                (name.way, name.vendor, name.instance, numbers.setdefault(name.value, len(numbers)))
                for name in claim.names
            ],
            claim.replica,
            claim.lives,
            len(claim.keys),
        )
        for claim in claims
    ]


def test_a_masked_capture_claims_the_same() -> None:
    for capture in (capture for case in own_cases("kubelet") for capture in case.captures(PARSER)):
        if capture.failure is None:
            before, after = PARSER.parse(capture), PARSER.parse(masked(capture))
            assert shapes(after.claims) == shapes(before.claims)
            assert len(after.problems) == len(before.problems)
