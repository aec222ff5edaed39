"""What the room of a domain is measured in for a gang: its accelerators, or cpu if it asks for none."""

from __future__ import annotations

from collections.abc import Iterable

from policies.glob import matches
from policies.objects.accelerator import DEVICE_CLASS_PREFIX, Accelerators
from policies.topology.gang.gang import Member

CPU = "cpu"
_KNOWN = (*Accelerators().resources, f"{DEVICE_CLASS_PREFIX}*")


def measure(members: Iterable[Member]) -> tuple[str, ...]:
    """The resources, sorted, of which the free amounts are compared."""
    return tuple(sorted({name for member in members for name in devices(member)})) or (CPU,)


def devices(member: Member) -> tuple[str, ...]:
    """The accelerator resources among the member's requests: those that add up to its accelerators.

    Which resources are accelerators is configured, so a resource of another name may be one. Among equal amounts, such
    as GPUs and network ports, the known names come first, then the first name.
    """
    if not member.accelerators:
        return ()
    extended = tuple((name, amount) for name, amount in member.requests if "/" in name and amount)
    known = tuple((name, amount) for name, amount in extended if matches(name, _KNOWN))
    if sum(amount for _, amount in known) == member.accelerators:
        return tuple(name for name, _ in known)
    alike = (name for name, amount in extended if amount == member.accelerators)
    name = next(alike, "")
    return (name,) if name else tuple(name for name, _ in known or extended)
