"""The kubelet's answer, log folders and cgroups become claims with owner, names and whether the pod is alive."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_parsers.bounds import MAX_CLAIMS
from telemetry_parsers.model import Capture, Output, Plain, Report
from telemetry_parsers.owners.kubelet import PARSER, parse
from telemetry_parsers.ownership import Claim, DeviceName, Owner

PODS, ALLOCATABLE = PARSER.polls
UUID = "1a2b3c4d-0001-0002-0003-0123456789ab"
GPU = f"GPU-{UUID}"
FIRST, SECOND, OTHER = (f"{number:08d}-0000-4000-8000-000000000000" for number in (1, 2, 3))
STATIC = "0123456789abcdef" * 2
ID, OLD_ID = "ab" * 32, "cd" * 32


def report_on(data: Plain, call: str = "pods") -> Report:
    poll = PODS if call == "pods" else ALLOCATABLE
    return parse(Capture("kubelet", poll.name, poll.request, (Output(call, data=data),)))


def container(name: str, *ids: str, resource: str = "nvidia.com/gpu") -> dict[str, Any]:
    devices = [{"resource": resource, "device": device_id} for device_id in ids]
    return {"container_name": name, "devices": devices, "drawn": []}


def pod(name: str, *containers: dict[str, Any], namespace: str = "team") -> dict[str, Any]:
    return {"namespace": namespace, "pod_name": name, "containers": list(containers)}


def folder(name: str, uid: str, namespace: str = "team") -> dict[str, str]:
    return {"namespace": namespace, "pod_name": name, "pod_uid": uid}


def link(name: str, of_container: str, container_id: str) -> dict[str, str]:
    return {"namespace": "team", "pod_name": name, "container_name": of_container, "container_id": container_id}


def owner(name: str, of_container: str = "main") -> Owner:
    return Owner("pod", f"team/{name}/{of_container}", "team", name, of_container)


def test_a_container_claims_each_device_by_itself() -> None:
    report = report_on({"pods": [pod("a", container("main", GPU, "nvidia1"))]})
    assert report.outcome == "ok"
    assert report.problems == ()
    assert report.claims == (
        Claim(owner("a"), ("podname:team/a/main",), (DeviceName(GPU, "uuid", GPU, "nvidia"),)),
        Claim(owner("a"), ("podname:team/a/main",), (DeviceName("nvidia1", "minor", "1", "nvidia"),)),
    )


def test_replica_ids_are_parts_of_one_card() -> None:
    report = report_on({"pods": [pod("a", container("main", f"{GPU}::0")), pod("b", container("main", f"{GPU}::1"))]})
    assert [(claim.owner.pod_name, claim.names[0].value, claim.replica) for claim in report.claims] == [
        ("a", GPU, "0"),
        ("b", GPU, "1"),
    ]


def test_dynamic_resources_are_claims() -> None:
    drawn = [
        {"driver": "gpu.nvidia.com", "device": "gpu-3", "share": ""},
        {"driver": "gpu.nvidia.com", "device": "gpu-4", "share": "s1"},
        {"driver": "dra.net", "device": "eth1", "share": ""},
    ]
    report = report_on({"pods": [pod("a", {"container_name": "main", "devices": [], "drawn": drawn})]})
    assert [(claim.names[0].way, claim.names[0].value, claim.replica) for claim in report.claims] == [
        ("minor", "3", ""),
        ("minor", "4", "s1"),
    ]


def test_resources_of_the_configuration_are_claims() -> None:
    pods = [pod("a", container("main", GPU, resource="example.com/gpu"))]
    assert report_on({"pods": pods}).claims[0].names == ()
    assert report_on({"pods": pods, "resources": ["example.com/gpu"]}).claims[0].names[0].value == GPU


def test_monitoring_resources_and_quantities_are_no_claims() -> None:
    monitor = container("main", "card0-0", resource="gpu.intel.com/i915_monitoring")
    [claim] = report_on({"pods": [pod("a", monitor)]}).claims
    assert claim == Claim(owner("a"), ("podname:team/a/main",))


@pytest.mark.parametrize("device_id", ["void", "all", "nvidia", "GPU-1"])
def test_an_id_of_unknown_form_is_a_problem_and_no_cards(device_id: str) -> None:
    report = report_on({"pods": [pod("a", container("main", device_id))]})
    assert [name.value for name in report.claims[0].names] == [device_id]
    assert [device_id in problem.text for problem in report.problems] == [True]


def test_platform_devices_are_found_by_their_render_node() -> None:
    pods = [pod("a", container("main", "amdgpu_xcp_3", "0000:19:00.0", resource="amd.com/gpu"))]
    nodes = [{"at": "amdgpu_xcp_3", "render": "131"}, {"at": "0000:19:00.0", "render": "128"}]
    claims = report_on({"pods": pods, "render_nodes": nodes}).claims
    assert [[(name.way, name.value) for name in claim.names] for claim in claims] == [
        [("render", "131"), ("render", "amdgpu_xcp_3")],
        [("render", "128"), ("bus_id", "0000:19:00.0")],
    ]


def test_a_pod_is_known_by_uid_and_container() -> None:
    data = {
        "pods": [pod("a", container("main", GPU), container("side"))],
        "folders": [folder("a", FIRST), folder("b", OTHER)],
        "links": [
            link("a", "main", ID),
            link("a", "main", OLD_ID),
            link("a", "side", "ef" * 32),
            link("b", "main", ID),
        ],
    }
    main, side = report_on(data).claims
    assert main.keys == ("podname:team/a/main", f"container:{ID}", f"container:{OLD_ID}", f"pod:{FIRST}")
    assert side == Claim(owner("a", "side"), ("podname:team/a/side", f"container:{'ef' * 32}"))


# Whether the pod is alive, by uids of log folders and existing cgroups.
LIVES = [
    pytest.param([folder("a", FIRST)], [FIRST], True, [FIRST], id="it has a cgroup"),
    pytest.param([folder("a", FIRST), folder("b", OTHER)], [OTHER], False, [FIRST], id="a pod that ended and is still listed"),
    pytest.param([folder("a", FIRST), folder("a", SECOND)], [SECOND], True, [SECOND], id="made again under the same name"),
    pytest.param([folder("a", STATIC)], [STATIC], True, [STATIC], id="static pod"),
    pytest.param([folder("a", FIRST), folder("b", OTHER)], [OTHER, SECOND], None, [FIRST], id="one begins that has no folder yet"),
    pytest.param([folder("a", FIRST)], None, None, [FIRST], id="no cgroups to be seen"),
    pytest.param([folder("a", FIRST)], [], None, [FIRST], id="no pod has one: another hierarchy"),
    pytest.param([folder("a", FIRST)], [OTHER], None, [FIRST], id="none of this kubelet has one"),
    pytest.param([folder("b", OTHER)], [OTHER], None, [], id="no log folder yet"),
    pytest.param([folder("a", "../../etc")], [OTHER], None, [], id="no uid"),
]  # fmt: skip


@pytest.mark.parametrize(("folders", "living", "lives", "uids"), LIVES)
def test_whether_a_pod_is_alive(folders: Plain, living: Plain, lives: bool | None, uids: list[str]) -> None:
    [claim] = report_on(
        {"pods": [pod("a", container("main", GPU))], "folders": folders, "living_pod_uids": living}
    ).claims
    assert claim.lives is lives
    assert [key.removeprefix("pod:") for key in claim.keys if key.startswith("pod:")] == uids


def test_hostile_names_are_problems_and_no_owners() -> None:
    for name in ["", "A", "a b", "a\nb", "<b>", "a" * 300, "\u202e", None, 3, ["x"]]:
        good = pod("good", container("main", GPU))
        bad = [
            {**good, "namespace": name},
            {**good, "pod_name": name},
            pod("x", {**container("main", GPU), "container_name": name}),
        ]
        report = report_on({"pods": [*bad, good]})
        assert [claim.owner for claim in report.claims] == [owner("good")]
        assert len(report.problems) == 3
        assert all(problem.text.isprintable() and len(problem.text) < 300 for problem in report.problems)


def test_allocatable_ids_of_unknown_form_are_problems() -> None:
    devices = [
        {"resource": "nvidia.com/gpu", "device": GPU},
        {"resource": "nvidia.com/gpu", "device": "weird"},
        {"resource": "nvidia.com/hostdev", "device": "0000:01:00.0"},
    ]
    report = report_on({"devices": devices}, "allocatable")
    assert report.claims == ()
    assert ["weird" in problem.text for problem in report.problems] == [True]


def test_claims_with_devices_are_kept_within_the_limit() -> None:
    idle = [pod(f"idle-{number}", container("main")) for number in range(MAX_CLAIMS)]
    report = report_on({"pods": [*idle, pod("a", container("main", GPU))]})
    assert len(report.claims) == MAX_CLAIMS
    assert report.claims[0].owner == owner("a")
    assert report.problems


def test_invalid_answer_is_not_understood() -> None:
    for call in ["pods", "allocatable"]:
        for data in [None, 3, [], {}, {"pods": 3, "devices": "x"}]:
            report = report_on(data, call)
            assert (report.outcome, report.reason) == ("failed", "not_understood")


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from([GPU, "team", "a", FIRST]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["namespace", "pod_name", "container_name", "devices", "resource", "device", "drawn", "driver", "share", "pod_uid"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=20,
)  # fmt: skip


@given(
    st.dictionaries(
        st.sampled_from(["pods", "devices", "folders", "links", "living_pod_uids", "resources", "render_nodes"]), ANY
    ),
    st.sampled_from(["pods", "allocatable"]),
)
def test_any_data_gives_a_report(data: Plain, call: str) -> None:
    report = report_on(data, call)
    assert report.outcome in ("ok", "failed")
    assert all(claim.owner.name.count("/") == 2 for claim in report.claims)
