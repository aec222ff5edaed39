"""The rules' match conditions: CEL by which the API server decides whether to call the service.

A condition must never be narrower than its rule, or writes would escape the rule. A wider condition only causes
unnecessary calls. The label guard's condition also limits the effect of an outage: Nodes, Namespaces and interruptable
Pods carry reserved labels, and their ordinary updates must not depend on the service. Like the rule, it therefore
compares `object` with `oldObject` (null on CREATE) place by place and applies the exceptions. `namespaceObject` does
not help: in a webhook's condition it is always null.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from policies.conditions.celtext import by_kind, every, globs, let, pairs, some, text, texts
from policies.engine.request import MIRROR_ANNOTATION
from policies.engine.requester import NODE_GROUP, NODE_PREFIX, SERVICE_ACCOUNT_PREFIX, Exemptions
from policies.engine.rule import HookCondition
from policies.labels import KEPT_KINDS, POD, LabelException
from policies.objects.fieldpath import Pattern, Wildcard, parse
from policies.objects.workload import Workload
from policies.tolerations import CPU_TAINT
from policies.topology.annotation import MENTIONED

USERNAME, GROUPS = "request.userInfo.username", "request.userInfo.groups"
KIND = "request.kind.group + '/' + request.kind.kind"
RESERVED = "k.matches('^([^/]*[.])?coreweave[.](cloud|com)/')"
LABELS, ANNOTATIONS = ("metadata", "labels"), ("metadata", "annotations")
# Groups whose kinds are all namespaced, except Nodes and Namespaces, which have no templates.
NAMESPACED_GROUPS = frozenset({"", "apps", "batch", "resource.k8s.io"})
IS_MIRROR_POD = f"has(object.metadata.annotations) && {text(MIRROR_ANNOTATION)} in object.metadata.annotations"

_EPHEMERAL_CLAIM = parse("spec.volumes[*].ephemeral.volumeClaimTemplate")


def requester_is_not_exempt(exempt: Exemptions, control_plane_namespaces: Iterable[str]) -> HookCondition:
    """False for the requesters that `Exemptions.cover` exempts, so that no outage of the service stops them.

    control_plane_namespaces: those known when the condition is written. A condition cannot look up a Namespace.
    """
    accounts = [*exempt.service_accounts, *(f"{namespace}/*" for namespace in control_plane_namespaces)]
    service_users = [SERVICE_ACCOUNT_PREFIX + account.replace("/", ":") for account in dict.fromkeys(accounts)]
    own_node = (
        "request.resource.group == '' && request.resource.resource == 'nodes' && has(request.name) && "
        f"{USERNAME} == {text(NODE_PREFIX)} + request.name"
    )
    own_mirror = (
        f"request.kind.group == '' && request.kind.kind == 'Pod' && object != null && {IS_MIRROR_POD} && "
        "has(object.spec.nodeName) && "
        f"{USERNAME} == {text(NODE_PREFIX)} + object.spec.nodeName"
    )
    clauses = [
        f"{USERNAME}.matches({globs([*exempt.users, *service_users])})",
        f"has({GROUPS}) && {GROUPS}.exists(g, g.matches({globs(exempt.groups)}))",
        f"has({GROUPS}) && {text(NODE_GROUP)} in {GROUPS} && {some([own_node, own_mirror])}",
    ]
    return HookCondition("requester-is-not-exempt", "!" + some(clauses, " ||\n  "))


def reserved_label_changes(
    workloads: Iterable[Workload], exceptions: Sequence[LabelException], *, cluster_scope: bool
) -> HookCondition:
    """True if the request adds a reserved label, changes one or, on Nodes and Namespaces, removes one.

    The expression first lists the places of the kind, each as a pair of its values in the new and the old object. One
    predicate then compares the labels of each pair.
    """
    rows = [row for row in workloads if not (cluster_scope and row.group in NAMESPACED_GROUPS)]
    pod_label = some(_is(exception) for exception in exceptions if POD in exception.kinds)
    clauses = [
        _added("object", "oldObject", [f"{pod_label} && {_is_copy()}", *_allowed_by_kind(exceptions)]),
        f"pods.exists(p, {_added('p[0]', 'p[1]', [pod_label])})",
        f"jobs.exists(p, {_added('p[0]', 'p[1]', [f'{pod_label} && {_is_copy()}'])})",
        f"claims.exists(p, {_added('p[0]', 'p[1]', [])})",
        f"pods.exists(t, {pairs(_EPHEMERAL_CLAIM, 't[0]', 't[1]')}.exists(p, {_added('p[0]', 'p[1]', [])}))",
        f"nodeLabels.exists(p, {_added_to_map(_maps('p[0]'), _maps('p[1]'), [])})",
    ]
    body = "  " + some([*clauses, *([_removed()] if cluster_scope else [])], " ||\n   ")
    for name, places in (("nodeLabels", "node_labels"), ("claims", "claims"), ("jobs", "jobs"), ("pods", "templates")):
        pairs_of_kind = by_kind(_by_places(rows, places))
        # A template that is not a map holds no labels that could be copied.
        maps = ".filter(p, type(p[0]) == map).map(p, [p[0], type(p[1]) == map ? p[1] : {}])"
        body = let(name, f"({pairs_of_kind}){maps}", body)
    return HookCondition("reserved-label-changes", f"object != null && {let('kind', KIND, body)}")


def pod_lacks_cpu_toleration() -> HookCondition:
    """True for Pods without a toleration for CPU Nodes. The rule itself checks whether they request a GPU."""
    covers = (
        f"(!has(t.key) || t.key in ['', {text(CPU_TAINT)}]) && has(t.operator) && t.operator == 'Exists' && "
        "(!has(t.effect) || t.effect in ['', 'NoSchedule'])"
    )
    tolerated = f"has(object.spec.tolerations) && object.spec.tolerations.exists(t,\n  {covers})"
    return HookCondition("lacks-cpu-toleration", f"!({tolerated})")


def pod_is_no_mirror() -> HookCondition:
    """False for the mirrors of static Pods, which cannot be changed."""
    return HookCondition("no-mirror-pod", f"!({IS_MIRROR_POD})")


def topology_is_mentioned(workloads: Iterable[Workload]) -> HookCondition:
    """True if the new or the old object, or a job or template in it, has a topology annotation or the record."""
    kinds: dict[tuple[Pattern, ...], list[str]] = {}
    for row in workloads:
        if places := tuple(pattern for pattern in (*row.jobs, *row.templates) if pattern):
            kinds.setdefault(places, []).append(f"{row.group}/{row.kind}")
    inner = "".join(
        f"kind in {texts(names)} ? {some(map(_mentioned, places))} :\n   " for places, names in kinds.items()
    )
    body = f"[object, oldObject].exists(o, {_mentioned(())} ||\n  ({inner}false))"
    body = let("kind", KIND, let("keys", texts(sorted(MENTIONED)), body))
    return HookCondition("topology-is-mentioned", f"object != null && {body}")


def _mentioned(place: Pattern) -> str:
    """Whether the value at a place in `o` has a topology annotation or the record."""
    return _exists("[o]", (*place, *ANNOTATIONS), "a", "type(a) == map && keys.exists(key, key in a)")


def _exists(values: str, pattern: Pattern, name: str, predicate: str) -> str:
    """Whether a predicate is true for a value at the pattern in one of the values, which may have any type.

    Optional steps do not suffice: `.?key` is an error on a list.
    """
    for position, key in enumerate(pattern):
        tail = pattern[position + 1 :]
        if key is Wildcard.ITEMS:
            return f"{values}.exists(l, type(l) == list && l.exists(c, {_exists('[c]', tail, name, predicate)}))"
        if key is Wildcard.VALUES:
            return f"{values}.exists(m, type(m) == map && m.exists(k, {_exists('[m[k]]', tail, name, predicate)}))"
        step = text(str(key))
        values += f".map(x, type(x) == map && {step} in x, x[{step}])"
    return f"{values}.exists({name}, {predicate})"


def _by_places(rows: Iterable[Workload], places: str) -> list[tuple[list[str], str]]:
    """Kinds, as group/kind, with the CEL list of pairs for one sort of places. Kinds with equal places share a list."""
    kinds_by_patterns: dict[tuple[Pattern, ...], list[str]] = {}
    for row in rows:
        if patterns := getattr(row, places):
            kinds_by_patterns.setdefault(patterns, []).append(f"{row.group}/{row.kind}")
    return [(kinds, " + ".join(map(pairs, patterns))) for patterns, kinds in kinds_by_patterns.items()]


def _labels(holder: str) -> str:
    """A list with the map `metadata.labels` of an object or template of any shape; empty if there is none."""
    steps = "".join(f".map(x, type(x) == map && has(x.{key}), x.{key})" for key in LABELS)
    return f"[{holder}]{steps}.filter(x, type(x) == map)"


def _maps(value: str) -> str:
    return f"[{value}].filter(x, type(x) == map)"


def _added(new: str, old: str, allowed: Sequence[str]) -> str:
    """Whether `new` has a reserved label that `old` lacks and that no clause about `k` and `v` allows."""
    return _added_to_map(_labels(new), _labels(old), allowed)


def _added_to_map(new: str, old: str, allowed: Sequence[str]) -> str:
    same = f"{old}.exists(o, k in o && o[k] == v)"
    reserved = every([RESERVED, f"!{same}", *(f"!({clause})" for clause in allowed)])
    return f"{new}.exists(l, l.exists(k, v, {reserved}))"


def _removed() -> str:
    kinds = texts(sorted(f"{group}/{kind}" for group, kind in KEPT_KINDS))
    kept = "has(object.metadata.labels) && k in object.metadata.labels"
    gone = f"oldObject.metadata.labels.exists(k, {RESERVED} && !({kept}))"
    return every([f"kind in {kinds}", "oldObject != null", "has(oldObject.metadata.labels)", gone])


def _allowed_by_kind(exceptions: Sequence[LabelException]) -> list[str]:
    """Clauses for the exceptions of kinds other than Pods. They apply only to the object's own labels."""
    allowed = []
    for exception in exceptions:
        kinds = exception.kinds - {POD}
        if kinds:
            clauses = [f"kind in {texts(sorted(f'{group}/{kind}' for group, kind in kinds))}", _is(exception)]
            if exception.values and not kinds.isdisjoint(KEPT_KINDS):
                # As in the rule: the user must also have been allowed to set the old value.
                before = f"{_labels('oldObject')}.all(o, !(k in o) || o[k] in {texts(sorted(exception.values))})"
                clauses.append(before)
            allowed.append(every(clauses))
    return allowed


def _is_copy() -> str:
    """Whether a Pod's label on a workload is a copy: a template has it too, or a controller owns the object."""
    copied = f"pods.exists(t, {_labels('t[0]')}.exists(m, k in m && m[k] == v))"
    references = "object.?metadata.?ownerReferences.orValue([])"
    return some([copied, f"size(pods) > 0 && {references}.exists(r, has(r.controller) && r.controller)"])


def _is(exception: LabelException) -> str:
    key = f"k == {text(exception.key)}"
    return f"{key} && v in {texts(sorted(exception.values))}" if exception.values else key
