"""What an audit lists: a resource in one version for each kind that rules are about, owners before what they own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct

from policies import labels
from policies.engine.rule import Rule
from policies.engine.ruleset import RuleSet
from policies.kubernetes.spelling import closest
from webhook.audit.kinds import UnknownKindError
from webhook.cluster.inspection.served import ServedResource

# Two names of the same objects; the first is the one that is listed.
_TWICE: Final = {("events.k8s.io", "events"): ("", "events")}


class Unit(Struct, frozen=True):
    """A list: a resource in a Namespace, empty for all. metadata: whether rules read nothing else."""

    resource: ServedResource
    namespace: str = ""
    metadata: bool = False

    @property
    def key(self) -> str:
        """Its path, which is its name."""
        return self.resource.path(self.namespace)


def units(
    served: Sequence[ServedResource],
    ruleset: RuleSet,
    workloads: Collection[tuple[str, str]],
    namespaces: Sequence[str] = (),
    kinds: Sequence[str] = (),
) -> list[Unit]:
    """The lists, Pods last.

    workloads: the kinds with more labels than their own. namespaces: those whose objects are asked for; empty for all,
    and for what is in none. kinds: such as `Pod`, `pods`, `Deployment.apps`, `pods.v1.`; empty for all. Raises
    UnknownKindError.
    """
    chosen = {_family(resource): resource for resource in reversed(served) if _rules(ruleset, resource)}
    if kinds:
        chosen = _named(kinds, served, chosen)
    found = [
        Unit(resource, namespace, _is_by_labels_only(resource, ruleset, workloads))
        for resource in chosen.values()
        if resource.namespaced or not namespaces
        for namespace in (tuple(dict.fromkeys(namespaces)) or ("",))
    ]
    return sorted(found, key=lambda unit: (unit.resource.kind == "Pod", unit.key))


def _family(resource: ServedResource) -> tuple[str, str]:
    """What all versions of a resource share."""
    target = resource.resource
    return _TWICE.get((target.group, target.resource), (target.group, target.resource))


def _rules(ruleset: RuleSet, resource: ServedResource) -> tuple[Rule, ...]:
    return (*ruleset.select("mutate", resource).rules, *ruleset.select("validate", resource).rules)


def _is_by_labels_only(resource: ServedResource, ruleset: RuleSet, workloads: Collection[tuple[str, str]]) -> bool:
    if (resource.resource.group, resource.kind) in workloads:
        return False
    return all(rule.name == labels.RULE for rule in _rules(ruleset, resource))


def _named(
    kinds: Sequence[str], served: Sequence[ServedResource], chosen: Mapping[tuple[str, str], ServedResource]
) -> dict[tuple[str, str], ServedResource]:
    """The resources that are asked for. Raises UnknownKindError."""
    found: dict[tuple[str, str], ServedResource] = {}
    for kind in kinds:
        families = {_family(resource) for resource in served if kind.lower() in _names(resource)}
        if not families:
            known = sorted({resource.kind for resource in served})
            meant = closest(kind, known)
            hint = f"; did you mean {meant}?" if meant else ""
            raise UnknownKindError(f"--kind {kind}: the cluster has no kind of this name that can be created{hint}")
        found |= {family: chosen[family] for family in families & chosen.keys()}
    if not found:
        raise UnknownKindError(f"--kind {', '.join(kinds)}: no rule or policy is about it")
    return found


def _names(resource: ServedResource) -> frozenset[str]:
    """How people call a resource, in lower case; the last is the only one that is no other's: `pods.v1.`."""
    plural, version = resource.resource.resource, resource.resource.version
    group = f".{resource.resource.group}" if resource.resource.group else ""
    names = (resource.kind, f"{resource.kind}{group}", plural, f"{plural}{group}", f"{plural}.{version}{group or '.'}")
    return frozenset(name.lower() for name in names)
