"""How large a workload may be for a domain to be chosen for it.

One process answers for all tenants, and a choice looks at each member, each resource and each requirement on all Nodes.
So what one object may ask of it has a bound, far above what people write: a choice at the bound takes some tenths of a
second with 10,000 Nodes.
"""

from __future__ import annotations

from collections.abc import Iterable

from policies.topology.gang.gang import Member

MOST_MEMBERS = 32
MOST_DETAILS = 256
"""The resources and the requirements on Nodes of all members together."""


def excess(members: Iterable[Member]) -> str:
    """What is too much of the members, with the bound; empty if nothing is."""
    given = tuple(members)
    if len(given) > MOST_MEMBERS:
        return f"{len(given)} templates, and domains are chosen for at most {MOST_MEMBERS}"
    details = sum(map(_details, given))
    if details > MOST_DETAILS:
        return f"{details} resources and requirements on Nodes, and domains are chosen for at most {MOST_DETAILS}"
    return ""


def _details(member: Member) -> int:
    return len(member.requests) + len(member.node_selector) + sum(map(len, member.terms))
