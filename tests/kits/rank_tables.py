"""Rank tables of all versions, as data that tests change before they write them."""

import json
from typing import Any


def version_1(servers: int = 2, chips: int = 2, version: str = "1.0") -> dict[str, Any]:
    """Return a table of version 1: server `10.0.0.<n>`, chips from 0 on, consecutive ranks."""
    return {
        "status": "completed",
        "server_list": [
            {
                "device": [
                    {"device_id": str(chip), "device_ip": f"192.0.2.{chip}", "rank_id": str(server * chips + chip)}
                    for chip in range(chips)
                ],
                "server_id": f"10.0.0.{server}",
                "host_ip": f"198.51.100.{server}",
                "container_ip": f"203.0.113.{server}",
            }
            for server in range(servers)
        ],
        "server_count": str(servers),
        "version": version,
    }


def version_2(servers: int = 2, chips: int = 2) -> dict[str, Any]:
    """Return a table of version 2: whole-number ranks, network instances `pod<n>` instead of servers."""
    return {
        "status": "completed",
        "version": "2.0",
        "rank_count": servers * chips,
        "rank_list": [
            {
                "rank_id": server * chips + chip,
                "local_id": chip,
                "device_id": chip,
                "level_list": [
                    {"net_layer": 1, "net_instance_id": "all"},
                    {"net_layer": 0, "net_instance_id": f"pod{server}", "rank_addr_list": []},
                ],
            }
            for server in range(servers)
            for chip in range(chips)
        ],
    }


def written(table: dict[str, Any]) -> str:
    return json.dumps(table, indent=4)
