"""A level of a topology: a node label key, and the other keys under which Nodes may carry the same label.

Source: CoreWeave's page "InfiniBand and RoCE labels" for the keys that were renamed, Topograph's "Node Labels and
Annotations" for long values.
"""

from __future__ import annotations

import re

from msgspec import Struct

from policies.kubernetes import label

REGION, ZONE, HOSTNAME = "topology.kubernetes.io/region", "topology.kubernetes.io/zone", "kubernetes.io/hostname"
BACKEND, IB = "backend.coreweave.cloud/", "ib.coreweave.cloud/"
FLAVOR = f"{BACKEND}flavor"
IB_FABRIC = f"{IB}fabric"
RENAMED = frozenset({"fabric", "superpod", "leafgroup", "leafgroup-name", "speed.current", "speed.expected"})
"""The labels of `backend.coreweave.cloud/` that `ib.coreweave.cloud/` has under the same name."""

TOPOGRAPH = ("network.topology.nvidia.com/", "fabric.topograph.run/", "accelerator.topograph.run/")
"""The prefixes of the labels that Topograph writes, and shortens where they are too long."""

_MEASURES = re.compile(r"(?:backend|ib)\.coreweave\.cloud/(?:speed|neighbors|ports)\..*\Z")
_RESERVATION = "topology.k8s.aws/capacity-block-id"
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


class Level(Struct, frozen=True):
    """A level. keys: the labels that Nodes may have it under, the one that counts first where a Node has several.

    name: the key or the other name by which the topology knows it. alias: a further name. distinct: whether the values
    under the keys differ, so that a later key counts only where the earlier ones are absent.
    """

    name: str
    keys: tuple[str, ...]
    alias: str = ""
    distinct: bool = False

    @property
    def short(self) -> str:
        """What stands behind the slash."""
        return self.name.rpartition("/")[2]


def level(key: str, alias: str = "") -> Level:
    """The level of a node label key, which is the same one under any key that is equivalent."""
    return Level(key, equivalent(key), alias)


def equivalent(key: str) -> tuple[str, ...]:
    """All keys of the same label, the newest first."""
    name = key.removeprefix(BACKEND).removeprefix(IB)
    return (BACKEND + name, IB + name) if name != key and name in RENAMED else (key,)


def value_problem(value: str) -> str:
    """Why a text is no value of a label, empty where it is one."""
    if len(value) > label.NAME_LENGTH:
        return f"has {len(value)} characters, and the value of a label has {label.NAME_LENGTH} at most"
    if not value or label.label_value(value):
        return "is no value of a label: letters, digits, and within them - _ . are allowed"
    return ""


def label_value(key: str, value: str) -> str:
    """The value as it stands on Nodes: under Topograph's keys one of over 63 characters is `x` and its hash."""
    return f"x{fnv1a_64(value.encode()):x}" if len(value) > label.NAME_LENGTH and key.startswith(TOPOGRAPH) else value


def fnv1a_64(data: bytes) -> int:
    """The 64-bit FNV-1a hash. Source: RFC 9923, "The FNV Non-Cryptographic Hash Algorithm"."""
    found = _FNV_OFFSET
    for byte in data:
        found = ((found ^ byte) * _FNV_PRIME) & 0xFFFFFFFFFFFFFFFF
    return found


def no_level(key: str) -> str:
    """What a well-known node label tells of instead, where somebody may take it for a level; else empty."""
    if _MEASURES.match(key):
        return "tells how a Node is connected, not where it is, and is no level"
    if key == FLAVOR:
        return "tells the kind of the network, which a topology may require, and is no level"
    if key == _RESERVATION:
        return "is a reservation, and no level"
    return ""
