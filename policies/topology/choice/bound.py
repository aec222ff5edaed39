"""The largest demand that is counted: beyond it sums could overflow, and a choice would take too long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from policies.topology.gang.gang import Member

MOST_PODS = 1_000_000
MOST_MEMBERS = 50
MOST_AMOUNT = 2**60
"""Of one resource, all Pods together: an exabyte, if it is memory."""


def excess(members: Sequence[Member]) -> str:
    """What is asked for beyond what is counted: `4294967296 Pods, and at most …`; empty if nothing is."""
    pods = sum(member.count for member in members)
    if pods > MOST_PODS:
        return f"it has {pods} Pods, and domains are chosen for at most {MOST_PODS}"
    if len(members) > MOST_MEMBERS:
        return f"it has {len(members)} pod templates, and domains are chosen for at most {MOST_MEMBERS}"
    sums: Counter[str] = Counter()
    for member in members:
        for name, amount in member.requests:
            sums[name] += member.count * amount
    large = min((name for name, amount in sums.items() if amount > MOST_AMOUNT), default="")
    return f"it asks for {sums[large]} of {large}, and at most {MOST_AMOUNT} are counted" if large else ""
