"""Whether the Nodes of a chosen domain can still hold a gang, if nothing else ran there. Pure.

A loss is certain: each template alone has too few places on the Nodes that take its Pods, or all of them together have
too little of a resource. A gang that only fails to fit beside itself, Pod by Pod, is not noticed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from policies.engine.facts import Taint
from policies.topology.gang.account import Account
from policies.topology.gang.address import Address, Step, called, is_within
from policies.topology.gang.gang import Member, Requirement
from policies.topology.nodes.manifest import NodeManifest
from policies.topology.nodes.obstacle import lasting, obstacles, reasons
from policies.topology.nodes.requests import allocatable
from policies.topology.nodes.selection import meets, tolerates_all

Index = dict[str, dict[str, list["Site"]]]


class Site(Struct, frozen=True):
    """A Node. labels: with its name under the empty key. taints: those that keep Pods out, with `reasons` for now."""

    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    reasons: tuple[str, ...]
    allocatable: Mapping[str, int]


class Loss(Struct, frozen=True):
    """A domain that cannot hold its gang.

    address: without preferred steps. nodes: in it. closed: how many of these take no Pods, for which reason.
    pods: of the gang. missing: how many of them have no place.
    """

    address: Address
    nodes: int
    closed: tuple[tuple[str, int], ...]
    pods: int
    missing: int

    @property
    def domain(self) -> str:
        """The domain as people write it: `superpod=2,rack=12`."""
        return called(self.address)

    @property
    def sentence(self) -> str:
        """What is missing where, for people."""
        if not self.nodes:
            return f"Its Pods must run in {self.domain}, which has no Nodes any more."
        closed = ", ".join(f"{count} {reason}" for reason, count in self.closed)
        state = f"{self.nodes} Node{'' if self.nodes == 1 else 's'}{f' ({closed})' if closed else ''}"
        return (
            f"Its Pods must run in {self.domain}, which has {state}: "
            f"no room for {self.missing} of its {self.pods} Pods, even if nothing else ran there."
        )


class Sites:
    """The Nodes of a cluster, by their labels."""

    def __init__(self, sites: Iterable[Site]) -> None:
        self._sites = tuple(sites)
        self._index: Index = {}

    def losses(self, account: Account) -> list[Loss]:
        """The domains that cannot hold what was promised to a workload there."""
        places: dict[Address, list[Member]] = {}
        for share in account.shares:
            address, pods = _bound(share.address, share.member), share.member.count
            if share.total is not None:
                pods = min(pods, max(0, share.total - share.done))
            if address and pods:
                places.setdefault(address, []).append(replace(share.member, count=pods))
        made = (self._loss(address, members) for address, members in places.items())
        return [loss for loss in made if loss.missing]

    def _loss(self, address: Address, members: Sequence[Member]) -> Loss:
        around = [site for site in self._at(address[-1]) if is_within(address, site.labels)]
        open_sites = [[site for site in around if _takes(site, member)] for member in members]
        missing = sum(
            max(0, member.count - sum(_places(site, member) for site in sites))
            for member, sites in zip(members, open_sites, strict=True)
        )
        together = {id(site): site for sites in open_sites for site in sites}.values()
        closed = Counter(site.reasons[0] for site in around if site.reasons)
        return Loss(
            address,
            len(around),
            tuple(sorted(closed.items(), key=lambda item: (-item[1], item[0]))),
            sum(member.count for member in members),
            max(missing, _shortage(members, together)),
        )

    def _at(self, step: Step) -> list[Site]:
        """The Nodes at a step."""
        sites: dict[int, Site] = {}
        for key in step.keys:
            if key not in self._index:
                of_key = self._index[key] = {}
                for site in self._sites:
                    if key in site.labels:
                        of_key.setdefault(site.labels[key], []).append(site)
            sites |= {id(site): site for value in step.values for site in self._index[key].get(value, ())}
        return list(sites.values())


def site(manifest: NodeManifest) -> Site:
    """A Node as it decides on Pods. Raises ValueError for a malformed amount."""
    node = manifest.node
    these = obstacles(node, cordoned=manifest.spec.unschedulable, ready=manifest.ready)
    return Site(
        {**node.labels, "": node.name},
        (*lasting(node), *(obstacle.taint for obstacle in these)),
        reasons(these),
        dict(allocatable(manifest.status.allocatable)),
    )


def _bound(address: Address, member: Member) -> Address:
    """The part of an address in which the member's Pods must run: what each alternative of theirs requires."""
    return tuple(step for step in address if member.terms and all(_is_in(step, term) for term in member.terms))


def _is_in(step: Step, term: Iterable[Requirement]) -> bool:
    return any(
        requirement.operator == "In" and requirement.key in step.keys and {*requirement.values} <= {*step.values}
        for requirement in term
    )


def _takes(site: Site, member: Member) -> bool:
    """Whether a Node takes Pods of a member now."""
    labels = site.labels
    return (
        all(labels.get(key) == value for key, value in member.node_selector)
        and (not member.terms or any(term and all(meets(one, labels) for one in term) for term in member.terms))
        and tolerates_all(member.tolerations, site.taints)
    )


def _places(site: Site, member: Member) -> int:
    """How many Pods of a member have room on an empty Node."""
    return min(site.allocatable.get(name, 0) // amount for name, amount in member.requests if amount)


def _shortage(members: Iterable[Member], sites: Iterable[Site]) -> int:
    """How many Pods, at least, have no place for lack of a resource in all Nodes together."""
    asked: Counter[str] = Counter()
    largest: dict[str, int] = {}
    for member in members:
        for name, amount in member.requests:
            asked[name] += amount * member.count
            largest[name] = max(amount, largest.get(name, 0))
    there = tuple(sites)
    short = {name: amount - sum(site.allocatable.get(name, 0) for site in there) for name, amount in asked.items()}
    return max((-(-lack // largest[name]) for name, lack in short.items() if lack > 0), default=0)
