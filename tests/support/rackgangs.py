"""Gangs that require a rack, and choices of racks, for tests of what keeps promises."""

from policies.topology.choice.choice import Choice, ChoiceKey
from policies.topology.gang.address import Address, Step
from policies.topology.gang.gang import PODS, Gang, GangKey, Member, Tier

RACK = Tier("rack", ("example.org/rack",))


def job(name: str = "train", namespace: str = "team") -> GangKey:
    """The key of a Job's gang."""
    return GangKey(namespace, "batch", "Job", name)


def gang(key: GangKey | None = None, pods: int = 8, path: str = "spec.template") -> Gang:
    """A gang that requires one rack, each of whose Pods asks for a GPU."""
    member = Member(path, pods, (("nvidia.com/gpu", 1), (PODS, 1)), accelerators=1)
    return Gang(key or job(), "racks", (RACK,), (member,), required=0)


def rack(value: str) -> Address:
    """The address of a rack."""
    return (Step(0, RACK.keys, (value,)),)


def question(*gangs: Gang, kept: tuple[Address, ...] = (), dry_run: bool = False) -> ChoiceKey:
    """A question for some gangs, by default for one."""
    return ChoiceKey(gangs or (gang(),), kept, dry_run)


def fitting(value: str = "r1") -> Choice:
    """The choice of a rack that has room."""
    return Choice("fits", required=rack(value), level="rack")
