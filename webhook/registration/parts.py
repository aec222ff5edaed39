"""The parts of an entry: a group that fails closed is registered so that no outage stops what a cluster needs. Pure.

All parts have the same path, so the same rules apply while the service lives:

- the ordinary part fails closed, outside of essential Namespaces, for what is not essential;
- the `system-` part fails open, in essential Namespaces. Its selector spares the API server a condition;
- the `essential-` part fails open, outside of essential Namespaces, for what is essential. It covers only what the
  group matches of that, so most groups have none, and no condition either.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from policies.engine.facts import NAME_LABEL
from policies.engine.match import Operator, ResourceRule, SelectorRequirement
from policies.engine.rule import FailurePolicy, HookCondition, Scope
from policies.engine.safety import Safety
from policies.matchconditions import is_essential, is_not_essential

_CLUSTER: Scope = "Cluster"
_NAMESPACES = ResourceRule(("*",), ("",), ("namespaces/*",))

Resources = tuple[tuple[ResourceRule, Scope], ...]


class Entry(Struct, frozen=True):
    """An entry of a webhook configuration.

    requirements: on Namespaces; none for an entry without a selector. is_whole: whether it is never divided.
    is_essential: whether it is asked about essential writes and fails open, so that the API server waits only shortly.
    """

    name: str
    path: str
    failure_policy: FailurePolicy
    resources: Resources
    requirements: tuple[SelectorRequirement, ...]
    conditions: tuple[HookCondition, ...]
    exact: bool
    reinvoked: bool
    is_whole: bool
    is_essential: bool = False


def parts(entry: Entry, safety: Safety) -> Iterator[Entry]:
    """The parts of an entry; the entry itself if nothing in it fails closed for what is essential."""
    if entry.is_whole:
        yield entry
        return
    essential = safety.essential([rule for rule, _ in entry.resources])
    if entry.failure_policy == "Ignore":
        yield replace(entry, is_essential=bool(essential))
        return
    writes = list(dict.fromkeys(write for write, _ in essential))
    others = _requirements("NotIn", safety.namespaces, entry)
    condition = (is_not_essential(writes, safety.users),) if writes else ()
    yield replace(entry, requirements=(*entry.requirements, *others), conditions=(*entry.conditions, *condition))
    opened = replace(entry, failure_policy="Ignore", is_essential=True)
    if (system := _in_namespaces(entry)) and others:
        selected = (*entry.requirements, *_requirements("In", safety.namespaces, entry))
        yield replace(opened, name=f"system-{entry.name}", resources=system, requirements=selected)
    scope = entry.resources[0][1]
    if seen := dict.fromkeys((rule, scope) for write, rule in essential if write.seen):
        yield replace(
            opened,
            name=f"essential-{entry.name}",
            resources=tuple(seen),
            requirements=(*entry.requirements, *others),
            conditions=(*entry.conditions, is_essential(writes, safety.users)),
        )


def _requirements(operator: Operator, namespaces: tuple[str, ...], entry: Entry) -> tuple[SelectorRequirement, ...]:
    """The requirement about essential Namespaces; none if there are none, or the entry has no selector."""
    if not (namespaces and entry.requirements):
        return ()
    return (SelectorRequirement(NAME_LABEL, operator, namespaces),)


def _in_namespaces(entry: Entry) -> Resources:
    """What an entry matches of Namespaces and of the objects in them: a selector does not choose other objects."""
    objects: Resources = tuple((rule, "Namespaced") for rule, scope in entry.resources if scope != "Cluster")
    themselves = (rule.intersection(_NAMESPACES) for rule, scope in entry.resources if scope != "Namespaced")
    return (*objects, *dict.fromkeys((rule, _CLUSTER) for rule in themselves if rule is not None))
