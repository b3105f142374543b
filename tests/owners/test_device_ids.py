"""Each form of a device plugin's id gives the name of a card; ids of other resources give no name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_parsers.owners.device_ids import is_wanted, may_be_card, parse_device_id

UUID = "1a2b3c4d-0001-0002-0003-0123456789ab"
GPU, MIG, MLU = f"GPU-{UUID}", f"MIG-{UUID}", f"MLU-{UUID}"
RENDERS = {"amdgpu_xcp_3": "131", "0000:19:00.0": "128"}

# Resource, id, then vendor, kinds and values of names in the order of trial, instance and part.
KNOWN = [
    ("nvidia.com/gpu", GPU, "nvidia", {"uuid": GPU}, "", ""),
    ("nvidia.com/gpu", f"{GPU}::7", "nvidia", {"uuid": GPU}, "", "7"),
    ("nvidia.com/gpu.shared", f"{GPU}::0", "nvidia", {"uuid": GPU}, "", "0"),
    ("nvidia.com/gpu", f"{GPU}-3", "nvidia", {"uuid": GPU}, "", "3"),
    ("volcano.sh/vgpu-number", f"{GPU}-3", "nvidia", {"uuid": GPU}, "", "3"),
    ("nvidia.com/mig-1g.10gb", MIG, "nvidia", {"uuid": MIG}, "", ""),
    ("nvidia.com/mig-1g.10gb.shared", f"{MIG}::1", "nvidia", {"uuid": MIG}, "", "1"),
    ("nvidia.com/mig-2g.10gb", f"MIG-{GPU}/3/0", "nvidia", {"uuid": f"MIG-{GPU}/3/0"}, "", ""),
    ("nvidia.com/A100-renamed", GPU, "nvidia", {"uuid": GPU}, "", ""),
    ("nvidia.com/gpu", "0", "nvidia", {"index": "0"}, "", ""),
    ("nvidia.com/gpu", "0::4", "nvidia", {"index": "0"}, "", "4"),
    ("nvidia.com/mig-1g.5gb", "0:1", "nvidia", {"index": "0:1"}, "", ""),
    ("nvidia.com/gpu", "nvidia0", "nvidia", {"minor": "0"}, "", ""),
    ("nvidia.com/gpu", "nvidia0/gi3", "nvidia", {"minor": "0"}, "3", ""),
    ("nvidia.com/gpu", "nvidia10/vgpu2", "nvidia", {"minor": "10"}, "", "2"),
    ("nvidia.com/gpu", "nvidia0/gi3/vgpu0", "nvidia", {"minor": "0"}, "3", "0"),
    ("gpu.nvidia.com", "gpu-5", "nvidia", {"minor": "5"}, "", ""),
    ("gpu.nvidia.com", "gpu-5-mig-1g10gb-0-1", "nvidia", {"minor": "5"}, "1g10gb-0-1", ""),
    ("amd.com/gpu", "0000:19:00.0", "amd", {"render": "128", "bus_id": "0000:19:00.0"}, "", ""),
    ("amd.com/gpu", "0000:AF:00.0", "amd", {"bus_id": "0000:af:00.0"}, "", ""),
    ("amd.com/cpx_nps4", "amdgpu_xcp_3", "amd", {"render": "131"}, "", ""),
    ("gpu.amd.com", "gpu-1-129", "amd", {"render": "129"}, "", ""),
    ("hygon.com/dcu", "0000:33:00.0", "hygon", {"bus_id": "0000:33:00.0"}, "", ""),
    ("hygon.com/dcunum", "2", "hygon", {"index": "2"}, "", ""),
    ("mthreads.com/gpu", UUID, "moorethreads", {"uuid": UUID}, "", ""),
    ("mthreads.com/vgpu", "1", "moorethreads", {"index": "1"}, "", ""),
    ("huawei.com/Ascend910", "Ascend910-11", "ascend", {"physical": "11"}, "", ""),
    ("huawei.com/Ascend310P", "Ascend310P-0", "ascend", {"physical": "0"}, "", ""),
    ("huawei.com/npu", "npu-3", "ascend", {"physical": "3"}, "", ""),
    ("huawei.com/Ascend910-2c", "Ascend910-2c-100-5", "ascend", {"physical": "5"}, "100", ""),
    ("huawei.com/Ascend310P-2c.1cpu", "Ascend310P-2c.1cpu-101-1", "ascend", {"physical": "1"}, "101", ""),
    ("cambricon.com/mlu", MLU, "cambricon", {"uuid": MLU}, "", ""),
    ("cambricon.com/mlu370", MLU, "cambricon", {"uuid": MLU}, "", ""),
    ("cambricon.com/mlu.share", f"{MLU}-_-2", "cambricon", {"uuid": MLU}, "", "2"),
    ("cambricon.com/mlu370.mim-2m.8gb", f"{MLU}-mim-{UUID}", "cambricon", {"uuid": MLU}, "", f"mim-{UUID}"),
    ("cambricon.com/mlu370.smlu.1c.8g", f"{MLU}-1c.8g-4", "cambricon", {"uuid": MLU}, "", "1c.8g-4"),
    ("cambricon.com/real-mlu-counts", f"{MLU}-dsmlu-9-1", "cambricon", {"uuid": MLU}, "", "dsmlu-9-1"),
    ("iluvatar.com/gpu", GPU, "iluvatar", {"uuid": GPU}, "", ""),
    ("iluvatar.ai/gpu", f"{GPU}::1", "iluvatar", {"uuid": GPU}, "", "1"),
    ("metax-tech.com/gpu", "0000:0f:00.0", "metax", {"bus_id": "0000:0f:00.0"}, "", ""),
    ("metax-tech.com/sgpu", GPU, "metax", {"uuid": GPU}, "", ""),
    ("enflame.com/gcu", "6", "enflame", {"index": "6"}, "", ""),
    ("enflame.com/drs-gcu", "6", "enflame", {"index": "6"}, "", ""),
    ("gpu.intel.com/i915", "card0-0", "intel", {"card": "0"}, "", "0"),
    ("gpu.intel.com/xe", "card12-9", "intel", {"card": "12"}, "", "9"),
    ("kunlunxin.com/xpu", "3", "kunlunxin", {"index": "3"}, "", ""),
    ("example.com/gpu", GPU, "", {"uuid": GPU}, "", ""),
    ("example.com/gpu", "nvidia4", "", {"minor": "4"}, "", ""),
    ("example.com/gpu", "Ascend910-4", "", {"physical": "4"}, "", ""),
    ("example.com/gpu", "3", "", {"index": "3"}, "", ""),
    ("nvidia.com/own-pool", "3", "nvidia", {"index": "3"}, "", ""),
]
OWN = frozenset({"example.com/gpu", "nvidia.com/own-pool"})


def test_known_id_has_its_names() -> None:
    for resource, device, vendor, names, instance, part in KNOWN:
        assert is_wanted(resource, OWN)
        assert may_be_card(resource, device, OWN)
        found = parse_device_id(resource, device, OWN, RENDERS)
        assert found is not None
        assert [(name.way, name.value) for name in found.names][: len(names)] == list(names.items())
        assert {(name.text, name.vendor, name.instance) for name in found.names} == {(device, vendor, instance)}
        assert found.replica == part


# Quantities, monitors and resources of other device plugins.
def test_ids_of_quantities_name_no_card() -> None:
    for resource in [
        "hygon.com/dcumem",
        "hygon.com/dcucores",
        "mthreads.com/sgpu-core",
        "mthreads.com/sgpu-memory",
        "huawei.com/Ascend910A-memory",
        "huawei.com/npu-core",
        "cambricon.com/mlu.smlu.vcore",
        "cambricon.com/mlu.smlu.vmemory",
        "iluvatar.ai/vcuda-core",
        "iluvatar.ai/vcuda-memory",
        "metax-tech.com/vcore",
        "metax-tech.com/vmemory",
        "gpu.intel.com/i915_monitoring",
        "gpu.intel.com/xe_monitoring",
        "gpu.intel.com/monitoring",
        "gpu.intel.com/memory.max",
        "intel.com/sriov",
        "rdma/hca",
        "devices.kubevirt.io/kvm",
        "cpu",
        "dra.net",
        "",
    ]:
        assert not is_wanted(resource, OWN)
        assert not may_be_card(resource, GPU, OWN)


@pytest.mark.parametrize(
    ("resource", "device"),
    [("nvidia.com/hostdev", "0000:19:00.0"), ("nvidia.com/gpumem", "3"), ("nvidia.com/TU104GL_T4", "14")],
)
def test_other_resources_of_a_vendors_domain_are_no_cards(resource: str, device: str) -> None:
    """The vendor's network plugin, HAMi's quantities, and IOMMU groups, which look like an index."""
    assert not may_be_card(resource, device, OWN)


def test_unknown_form_has_no_name() -> None:
    for resource, device in [
        ("nvidia.com/gpu", "void"),
        ("nvidia.com/gpu", "all"),
        ("nvidia.com/gpu", "none"),
        ("nvidia.com/gpu", ""),
        ("nvidia.com/gpu", f"{GPU}::"),
        ("nvidia.com/gpu", f"{GPU}\n"),
        ("nvidia.com/gpu", f" {GPU}"),
        ("nvidia.com/gpu", "٣"),
        ("nvidia.com/gpu", "-1"),
        ("nvidia.com/gpu", "nvidia0/gi3/gi4"),
        ("amd.com/gpu", "3"),
        ("huawei.com/Ascend910", "3"),
        ("huawei.com/Ascend910", "Ascend910-"),
        ("gpu.intel.com/i915", "card0"),
        ("gpu.nvidia.com", "nic-0"),
    ]:
        assert may_be_card(resource, device, OWN)
        assert parse_device_id(resource, device, OWN, RENDERS) is None


@given(st.sampled_from([row[0] for row in KNOWN]), st.text(max_size=300))
def test_any_id_has_names_with_values_or_none(resource: str, device: str) -> None:
    found = parse_device_id(resource, device, OWN, RENDERS)
    assert found is None or (found.names and all(name.value and name.text == device for name in found.names))
