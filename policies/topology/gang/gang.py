"""A gang: Pods of a workload that belong in one domain, with all that decides where they fit.

Everything here is immutable, hashable and made of plain values, so that a gang can be the key of a look-up.
"""

from __future__ import annotations

from msgspec import Struct

Amounts = tuple[tuple[str, int], ...]
"""Amounts by resource, sorted by name: cpu in thousandths, memory and storage in bytes, others as counts."""

PODS = "pods"
"""The resource of which each Pod takes one: a Node has room for so many Pods."""


class GangKey(Struct, frozen=True, order=True):
    """The root of a gang. part: the group of a LeaderWorkerSet, the replica of a PodCliqueSet, else empty."""

    namespace: str
    group: str
    kind: str
    name: str
    part: str = ""


class Tier(Struct, frozen=True):
    """A level of a topology as the choice sees it. name: what people call it. Others: see `topology.Level`."""

    name: str
    keys: tuple[str, ...]
    distinct: bool = False
    independent: bool = False


class Requirement(Struct, frozen=True):
    """A requirement on a label, or on the Node's name if `key` is empty. Source: NodeSelectorRequirement."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class Toleration(Struct, frozen=True):
    """A toleration as Kubernetes has it; an empty key with Exists tolerates every taint."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Member(Struct, frozen=True):
    """Pods of one template. path: the template's, as Kubernetes writes field paths; empty for a Pod.

    count: Pods of this template in the gang. requests: what each asks for, one of PODS included. accelerators: how many
    of them each holds, of all accelerator resources together. node_selector: labels that all hold. terms: alternatives
    of which a Node must meet one; empty for every Node (a named domain, a topology's requirement and spec.nodeName are
    in them). priority: of its Pods; None if the class is not known. preempts: whether they may preempt others. claims:
    device claims that the inventory cannot count. alone: whether at most one of these Pods may be on a Node.
    """

    path: str
    count: int
    requests: Amounts
    accelerators: int = 0
    node_selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    priority: int | None = None
    preempts: bool = True
    claims: tuple[str, ...] = ()
    alone: bool = False


class Gang(Struct, frozen=True):
    """Members that belong in one domain of a level.

    topology: its name. tiers: its levels, farthest first. required, preferred: positions in `tiers`, or None.
    """

    key: GangKey
    topology: str
    tiers: tuple[Tier, ...]
    members: tuple[Member, ...]
    required: int | None = None
    preferred: int | None = None

    @property
    def pods(self) -> int:
        """The Pods of all members."""
        return sum(member.count for member in self.members)

    @property
    def accelerators(self) -> int:
        """The accelerators of all Pods."""
        return sum(member.count * member.accelerators for member in self.members)
