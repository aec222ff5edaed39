"""How large a workload may be for a domain to be chosen for it.

One process answers for all tenants, and a choice looks at each member, each resource and each requirement on all Nodes.
So what one object may ask of it has a bound, far above what people write: a choice at the bound takes some tenths of a
second with 10,000 Nodes, and no sum overflows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from policies.topology.gang.gang import Member

MOST_PODS = 1_000_000
"""No cluster has as many: Kubernetes supports 150,000."""

MOST_MEMBERS = 32
MOST_DETAILS = 256
"""The resources and the requirements on Nodes of all members together."""

MOST_AMOUNT = 2**60
"""Of one resource, all Pods together: an exabyte, if it is memory."""

_CHOSEN = "and domains are chosen for at most"


def excess(members: Iterable[Member]) -> str:
    """What is too much of the members, with the bound: `4294967296 Pods, and …`; empty if nothing is."""
    given = tuple(members)
    if len(given) > MOST_MEMBERS:
        return f"{len(given)} templates, {_CHOSEN} {MOST_MEMBERS}"
    details = sum(map(_details, given))
    if details > MOST_DETAILS:
        return f"{details} resources and requirements on Nodes, {_CHOSEN} {MOST_DETAILS}"
    pods = sum(member.count for member in given)
    if pods > MOST_PODS:
        return f"{pods} Pods, {_CHOSEN} {MOST_PODS}"
    large = min((name for name, amount in _sums(given).items() if amount > MOST_AMOUNT), default="")
    return f"requests for more than {MOST_AMOUNT} of {large}, {_CHOSEN} that" if large else ""


def _details(member: Member) -> int:
    return len(member.requests) + len(member.node_selector) + sum(map(len, member.terms))


def _sums(members: Iterable[Member]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for member in members:
        for name, amount in member.requests:
            sums[name] += member.count * amount
    return sums
