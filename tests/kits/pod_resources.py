"""The messages of the kubelet's service for pod resources, built with the protobuf library.

The fields are those of `v1.PodResourcesLister` (https://github.com/kubernetes/kubelet, pkg/apis/podresources/v1/api.proto).
"""

import functools
from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "v1"
SERVICE = "v1.PodResourcesLister"
# Each field: name, number, type; a type in brackets is repeated.
MESSAGES: Mapping[str, tuple[tuple[str, int, str], ...]] = {
    "ListPodResourcesRequest": (),
    "AllocatableResourcesRequest": (),
    "ListPodResourcesResponse": (("pod_resources", 1, "[PodResources]"),),
    "AllocatableResourcesResponse": (
        ("devices", 1, "[ContainerDevices]"),
        ("cpu_ids", 2, "[int64]"),
        ("memory", 3, "[ContainerMemory]"),
    ),
    "PodResources": (
        ("name", 1, "string"),
        ("namespace", 2, "string"),
        ("containers", 3, "[ContainerResources]"),
        ("cpu_ids", 4, "[int64]"),
        ("memory", 5, "[ContainerMemory]"),
    ),
    "ContainerResources": (
        ("name", 1, "string"),
        ("devices", 2, "[ContainerDevices]"),
        ("cpu_ids", 3, "[int64]"),
        ("memory", 4, "[ContainerMemory]"),
        ("dynamic_resources", 5, "[DynamicResource]"),
    ),
    "ContainerDevices": (
        ("resource_name", 1, "string"),
        ("device_ids", 2, "[string]"),
        ("topology", 3, "TopologyInfo"),
    ),
    "ContainerMemory": (("memory_type", 1, "string"), ("size", 2, "uint64"), ("topology", 3, "TopologyInfo")),
    "TopologyInfo": (("nodes", 1, "[NUMANode]"),),
    "NUMANode": (("ID", 1, "int64"),),
    "DynamicResource": (
        ("claim_name", 2, "string"),
        ("claim_namespace", 3, "string"),
        ("claim_resources", 4, "[ClaimResource]"),
    ),
    "ClaimResource": (
        ("cdi_devices", 1, "[CDIDevice]"),
        ("driver_name", 2, "string"),
        ("pool_name", 3, "string"),
        ("device_name", 4, "string"),
        ("share_id", 5, "string"),
    ),
    "CDIDevice": (("name", 1, "string"),),
}
_SCALARS = {
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "uint64": descriptor_pb2.FieldDescriptorProto.TYPE_UINT64,
}


@functools.cache
def message_classes() -> Mapping[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="pod_resources.proto", package=PACKAGE, syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            _add(message, field, number, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in MESSAGES}


def _add(message: Any, name: str, number: int, kind: str) -> None:
    base = kind.strip("[]")
    field = message.field.add(name=name, number=number)
    field.label = field.LABEL_REPEATED if kind.startswith("[") else field.LABEL_OPTIONAL
    if base in _SCALARS:
        field.type = _SCALARS[base]
    else:
        field.type, field.type_name = field.TYPE_MESSAGE, f".{PACKAGE}.{base}"


def listed(*pods: Mapping[str, Any]) -> bytes:
    """Return the bytes of a List answer; each pod is a dict for protobuf's constructor."""
    answer = message_classes()["ListPodResourcesResponse"](pod_resources=list(pods))
    return bytes(answer.SerializeToString())


def allocatable(devices: Mapping[str, tuple[str, ...]]) -> bytes:
    """Return the bytes of a GetAllocatableResources answer with the ids of each resource name."""
    devices = [
        {"resource_name": name, "device_ids": [device_id], "topology": {"nodes": [{"ID": 1}]}}
        for name, ids in devices.items()
        for device_id in ids
    ]
    answer = message_classes()["AllocatableResourcesResponse"](devices=devices, cpu_ids=[0, 1, 2])
    return bytes(answer.SerializeToString())


def pod(
    namespace: str,
    name: str,
    containers: Mapping[str, Mapping[str, tuple[str, ...]]],
    drawn: Mapping[str, tuple[str, ...]] | None = None,
) -> dict[str, Any]:
    """Return a pod; `containers` have ids by resource name, `drawn` are the last container's devices by DRA driver."""
    containers: list[dict[str, Any]] = [
        {
            "name": container,
            "cpu_ids": [1, 3],
            "memory": [{"memory_type": "memory", "size": 1 << 34, "topology": {"nodes": [{"ID": 0}]}}],
            "devices": [
                {"resource_name": resource, "device_ids": [device_id], "topology": {"nodes": [{"ID": 0}]}}
                for resource, ids in devices.items()
                for device_id in ids
            ],
        }
        for container, devices in containers.items()
    ]
    if drawn:
        containers[-1]["dynamic_resources"] = [_dynamic(driver, names) for driver, names in drawn.items()]
    return {"name": name, "namespace": namespace, "containers": containers, "cpu_ids": [1], "memory": []}


def _dynamic(driver: str, names: tuple[str, ...]) -> dict[str, Any]:
    resources = [
        {
            "cdi_devices": [{"name": f"{driver}/device={name}"}],
            "driver_name": driver,
            "pool_name": "node-1",
            "device_name": name,
        }
        for name in names
    ]
    return {"claim_name": "my-claim", "claim_namespace": "team", "claim_resources": resources}
