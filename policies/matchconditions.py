"""Match conditions: CEL by which the API server decides whether to call the service.

A condition must never be narrower than its rule, or writes would escape the rule. A wider condition only causes
unnecessary calls. The label guard's condition also limits the effect of an outage: Nodes, Namespaces and interruptable
Pods carry reserved labels, and their ordinary updates must not depend on the service. Like the rule, it therefore
compares `object` with `oldObject` (null on CREATE) place by place and applies the exceptions. `namespaceObject` does
not help: in a webhook's condition it is always null.

The condition that tells the writes which a cluster needs to come up from all others reads only `request`, and names
only writes that the entry's rules match, because the API server evaluates it for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from policies.celtext import at, by_kind, every, globs, is_map, let, pairs, some, split, steps, text, texts, values
from policies.engine.match import ResourceRule
from policies.engine.request import MIRROR_ANNOTATION
from policies.engine.rule import HookCondition
from policies.engine.safety import (
    CONTROL_PLANE,
    CONTROL_PLANE_LABEL,
    CONTROL_PLANE_USERS,
    NODE_GROUP,
    NODE_PREFIX,
    SERVICE_ACCOUNT_PREFIX,
    SYSTEM_ACCOUNTS,
    SYSTEM_PREFIX,
    EssentialWrite,
    Exemptions,
    Writers,
)
from policies.guard import TAINTS
from policies.labels import KEPT_KINDS, POD, LabelException
from policies.objects.fieldpath import Pattern, parse
from policies.objects.workload import PATCHES, STANDARD, Workload
from policies.podspec import Accelerators
from policies.tolerations import CPU_TAINT
from policies.topology.placement import ANNOTATIONS, GATE, MISSPELT, PREFIX, WORDS
from policies.topology.schemes import EXCLUSIVE, KUEUE, PLACES, POD_GROUP, QUEUE
from policies.vocabulary import ALONE, CONCERNS

USERNAME, GROUPS = "request.userInfo.username", "request.userInfo.groups"
_SUBRESOURCE = "request.?subResource.orValue('')"
RESOURCE = "request.resource.group + '/' + request.resource.resource"


def is_essential(writes: Iterable[EssentialWrite], users: Iterable[str]) -> HookCondition:
    """True for the writes. users: globs of users with the rights of the control plane."""
    added = [f"{USERNAME}.matches({globs(users)})"] if (users := tuple(users)) else []
    kubelet = (
        f"{USERNAME}.startsWith({text(NODE_PREFIX)}) && {text(NODE_GROUP)} in request.userInfo.?groups.orValue([])"
    )
    accounts = f"{USERNAME}.startsWith({text(SYSTEM_ACCOUNTS)})"
    control_plane = [accounts, f"{USERNAME} in {texts(CONTROL_PLANE_USERS)}", kubelet, *added]
    requesters: Mapping[Writers, list[str]] = {
        "anybody": [],
        "system": [some([f"{USERNAME}.startsWith({text(SYSTEM_PREFIX)})", *added])],
    }
    rules: dict[Writers, list[ResourceRule]] = {}
    for write in writes:
        rules.setdefault(write.writers, []).append(write.rule)
    clauses = [
        every([*requesters.get(who, [some(control_plane, " ||\n  ")]), some(_resources(listed), " ||\n  ")])
        for who, listed in rules.items()
    ]
    expression = let("resource", RESOURCE, let("subresource", _SUBRESOURCE, some(clauses, " ||\n")))
    return HookCondition("essential", expression)


def is_not_essential(writes: Iterable[EssentialWrite], users: Iterable[str]) -> HookCondition:
    """False for the writes."""
    return HookCondition("not-essential", f"!{is_essential(writes, users).expression}")


def _resources(rules: Iterable[ResourceRule]) -> list[str]:
    clauses, whole, single = [], [], []
    for rule in rules:
        names = [(group, *pattern.partition("/")[::2]) for group in rule.groups for pattern in rule.resources]
        if rule.groups == ("*",):
            clauses += [f"subresource == {text(sub)}" for _, _, sub in names]
        elif "*" in rule.operations:
            whole += [f"{group}/{name}" for group, name, sub in names if sub == "*"]
            single += [f"{group}/{name}/{sub}" for group, name, sub in names if sub != "*"]
        else:
            exact = texts(f"{group}/{name}/{sub}" for group, name, sub in names)
            clauses.append(f"request.operation in {texts(rule.operations)} && resource + '/' + subresource in {exact}")
    if whole:
        clauses.append(f"resource in {texts(whole)}")
    if single:
        clauses.append(f"resource + '/' + subresource in {texts(single)}")
    return clauses


_TAINTS = ("spec", "taints")


def takes_away(*, namespaces: bool, taints: bool) -> HookCondition:
    """True if a Namespace of the control plane is written, or a Node loses a taint; only where that is judged."""
    clauses = []
    if namespaces:
        label = ("metadata", "labels", CONTROL_PLANE_LABEL)
        is_theirs = at("oldObject", label, lambda value: f"{value} == {text(CONTROL_PLANE)}")
        clauses.append(f"request.kind.kind == 'Namespace' && {is_theirs}")
    if taints:
        same = (
            "n.key == t.key && n.effect == t.effect && (has(n.value) ? n.value : '') == (has(t.value) ? t.value : '')"
        )
        stays = at("object", _TAINTS, lambda listed: f"{listed}.exists(n, {same})")
        goes = f"t.key in {texts(TAINTS)} && !({stays})"
        is_gone = at("oldObject", _TAINTS, lambda listed: f"{listed}.exists(t, {goes})")
        clauses.append(f"request.kind.kind == 'Node' && {is_gone}")
    return HookCondition("takes-away", some(clauses, " ||\n  "))


KIND = "request.kind.group + '/' + request.kind.kind"
RESERVED = "k.matches('^([^/]*[.])?coreweave[.](cloud|com)/')"
RESERVED_PART = "coreweave."
"""A part of every reserved key, and of few others."""

LABELS, ANNOTATIONS_OF = ("metadata", "labels"), ("metadata", "annotations")
# Groups whose kinds are all namespaced, except Nodes and Namespaces, which have no templates.
NAMESPACED_GROUPS = frozenset({"", "apps", "batch", "resource.k8s.io"})
IS_MIRROR_POD = f"has(object.metadata.annotations) && {text(MIRROR_ANNOTATION)} in object.metadata.annotations"

SELECTORS = f"(?i){CONCERNS}|{ALONE}"
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

    Nearly no write has a reserved label, so the expression looks for one first, at the places of the kind alone. Only
    then it lists these places, each as a pair of its values in the new and the old object, and one predicate compares
    the labels of each pair.
    """
    rows = [row for row in workloads if not (cluster_scope and row.group in NAMESPACED_GROUPS)]
    pod_label = some(is_excepted(exception) for exception in exceptions if POD in exception.kinds)
    is_a_map = ".filter(x, type(x) == map)"
    of_pod, of_job = _added("p[0]", "p[1]", [pod_label]), _added("p[0]", "p[1]", [f"{pod_label} && {_is_copy()}"])
    clauses = [
        _added("object", "oldObject", [f"{pod_label} && {_is_copy()}", *_allowed_by_kind(exceptions)]),
        f"pods.exists(p, {of_pod})",
        f"jobs.exists(p, {of_job})",
        f"claims.exists(p, {_added('p[0]', 'p[1]', [])})",
        f"pods.exists(t, {_claims('t')})",
        f"copied.exists(p, {_added_to_map(f'[p[0]]{is_a_map}', f'[p[1]]{is_a_map}', [])})",
        *_within(rows, "jobs", of_job),
        *_within(rows, "templates", f"({of_pod} || {_claims('p')})"),
    ]
    if cluster_scope:
        kinds = texts(sorted(f"{group}/{kind}" for group, kind in KEPT_KINDS))
        kept = "has(object.metadata.labels) && k in object.metadata.labels"
        gone = f"oldObject.metadata.labels.exists(k, {RESERVED} && !({kept}))"
        clauses.append(every([f"kind in {kinds}", "oldObject != null", "has(oldObject.metadata.labels)", gone]))
    body = "  " + some(clauses, " ||\n   ")
    for name, places in (("copied", "copied_labels"), ("claims", "claims"), ("jobs", "jobs"), ("pods", "templates")):
        pairs_of_kind = by_kind(_by_places(rows, places))
        # A template that is not a map holds no labels that could be copied.
        maps = ".filter(p, type(p[0]) == map).map(p, [p[0], type(p[1]) == map ? p[1] : {}])"
        body = let(name, f"({pairs_of_kind}){maps}", body)
    looks_reserved = candidate(rows, cluster_scope=cluster_scope)
    return HookCondition("reserved-label-changes", f"object != null && {looks_reserved} && {let('kind', KIND, body)}")


_COVERS = (
    f"(!has(t.key) || t.key in ['', {text(CPU_TAINT)}]) && has(t.operator) && t.operator == 'Exists' && "
    "(!has(t.effect) || t.effect in ['', 'NoSchedule'])"
)
LACKS_CPU_TOLERATION = HookCondition(
    "lacks-cpu-toleration",
    f"!(has(object.spec.tolerations) && object.spec.tolerations.exists(t,\n  {_COVERS}))",
)
"""True for Pods without a toleration for CPU Nodes."""

NO_MIRROR_POD = HookCondition("no-mirror-pod", f"!({IS_MIRROR_POD})")
"""False for the mirrors of static Pods, which cannot be changed."""


def pod_requests_no_accelerator(accelerators: Accelerators) -> HookCondition:
    """False for Pods whose containers' limits name an accelerator. The rule itself finds all other requests."""
    is_named = f"r.matches({globs(accelerators.resources)}) && c.resources.limits[r] != '0'"
    limits = f"has(c.resources) && has(c.resources.limits) && c.resources.limits.exists(r, {is_named})"
    return HookCondition("requests-no-accelerator", f"!object.spec.containers.exists(c, {limits})")


def topology_is_mentioned(workloads: Iterable[Workload], *, schemes: bool = False) -> HookCondition:
    """True if the new or the old object, or a job or template in it, has a topology annotation or our gate.

    So do misspelt annotations, and labels, that begin like one. Without workloads, for Pods alone, only the annotations
    themselves count: nearly all Pods are made by controllers, and there are too many of them to go through each key.
    schemes: whether other schedulers' annotations count, too. Of kinds that say in fields of their own where their Pods
    belong, or whose templates are of another shape, few objects are written: they are always asked about.
    """
    rows = list(workloads)
    of_its_own = PATCHES | (PLACES.keys() if schemes else frozenset())
    always = [f"{row.group}/{row.kind}" for row in rows if row.shape != STANDARD or row.group_kind in of_its_own]
    places = [
        (row, [place for place in (*row.jobs, *row.templates) if place])
        for row in rows
        if f"{row.group}/{row.kind}" not in always
    ]
    named = f"type(g) == map && has(g.name) && g.name == {text(GATE)}"
    is_gated = at("h", ("spec", "schedulingGates"), lambda it: f"type({it}) == list && {it}.exists(g, {named})")
    if places:
        # Whether a key among the annotations or labels of `h` looks like one.
        own = every([f"k.startsWith({text(PREFIX)})", some(f"k.contains({text(part)})" for part in WORDS)])
        similar = some([f"k.startsWith({text(MISSPELT)})", own])
        others = f" || k.startsWith({text(KUEUE)}) || k.contains({text(EXCLUSIVE)}) || k == {text(QUEUE)}"
        keys = f"{similar}{others}" if schemes else similar
        of_annotations = at("h", ANNOTATIONS_OF, lambda held: f"{is_map(held)} && {held}.exists(k, {keys})")
        of_labels = at("h", LABELS, lambda held: f"{is_map(held)} && {held}.exists(k, {similar})")
        mentions = f"({of_annotations}) || ({of_labels})" + (f" ||\n  ({is_gated})" if schemes else "")
    else:
        # Whether the Pod `h` has an annotation. Other schedulers' count where no controller made it.
        known = [f"{text(key)} in {{0}}" for key in sorted(ANNOTATIONS)]
        if schemes:
            similar = some(f"k.startsWith({text(part)})" for part in (KUEUE, PREFIX, MISSPELT))
            known.append(f"!has(object.metadata.ownerReferences) && {{0}}.exists(k, {similar})")
        mentions = at("h", ANNOTATIONS_OF, lambda a: every([is_map(a), some(clause.format(a) for clause in known)]))
        mentions = f"({mentions}) || ({is_gated})" if schemes else mentions
    body = f"[object, oldObject].exists(o, ([o] + ({_by_kind(places, 'o')})).exists(h,\n  {mentions}))"
    if schemes and rows:
        group = text("/".join(POD_GROUP))
        body = f"(kind == {group} && !has(object.metadata.ownerReferences)) || {body}"
    if always:
        body = f"kind in {texts(always)} || {body}"
    return HookCondition("topology-is-mentioned", f"object != null && {let('kind', KIND, body)}")


def selectors_are_concerned(workloads: Iterable[Workload]) -> HookCondition:
    """True if a person writes a selector with a key that looks known into a template; without workloads, into a Pod.

    False for what a controller owns, and for an object whose spec is as it was.
    """
    rows = list(workloads)
    # A list of what is within two lists needs a newer API server; few objects of these kinds are written.
    deep = [f"{row.group}/{row.kind}" for row in rows if any(split(place)[1] for place in row.templates)]
    places = [
        (row, [(*place, *row.shape.spec) for place in row.templates])
        for row in rows
        if f"{row.group}/{row.kind}" not in deep
    ]
    owners = "object.metadata.ownerReferences"
    is_owned = f"has({owners}) && {owners}.exists(r, has(r.controller) && r.controller)"
    has_specs = "!has(object.spec) || !has(oldObject.spec)"
    is_new = f"(oldObject == null || {has_specs} || object.spec != oldObject.spec)" if places else "oldObject == null"
    if places:
        named = f"({_by_kind(places, 'object', partial(values, typed=True))}).exists(s,\n  {_names_known('s')})"
        body = let("kind", KIND, f"kind in {texts(deep)} || {named}" if deep else named)
    else:
        body = _names_known("object.spec")
    return HookCondition("selectors-are-concerned", every(["object != null", f"!({is_owned})", is_new, body]))


def _names_known(spec: str) -> str:
    """Whether a key in a Pod's spec looks known; an error, which counts as false, where it has another shape."""
    known = f"matches({text(SELECTORS)})"
    required, preferred = (f".?{name}DuringSchedulingIgnoredDuringExecution" for name in ("required", "preferred"))
    nodes = (
        f"(a.?nodeAffinity{required}.?nodeSelectorTerms.orValue([]) +\n"
        f"    a.?nodeAffinity{preferred}.orValue([]).map(w, w.preference))"
        f".exists(t, t.?matchExpressions.orValue([]).exists(e, e.key.{known}))"
    )
    pods = (
        f"[a.?podAffinity, a.?podAntiAffinity].exists(p, p{required}.orValue([]).exists(t, t.topologyKey.{known}) ||\n"
        f"    p{preferred}.orValue([]).exists(w, w.podAffinityTerm.topologyKey.{known}))"
    )
    clauses = {
        "nodeSelector": f"{spec}.nodeSelector.exists(k, k.{known})",
        "affinity": let("a", f"{spec}.affinity", f"{nodes} ||\n    {pods}"),
        "topologySpreadConstraints": f"{spec}.topologySpreadConstraints.exists(c, c.topologyKey.{known})",
    }
    return some((f"(has({spec}.{field}) && {clause})" for field, clause in clauses.items()), " ||\n  ")


def candidate(rows: Sequence[Workload], *, cluster_scope: bool) -> str:
    """Whether a key looks reserved, among the object's own labels if they are not as they were, or in what is copied.

    Custom resources that hold templates are always candidates: what is looked for in all of them takes the API server
    longer to compile than it will ever spare.
    """
    clauses = [_own_labels_differ("object", "oldObject")]
    if cluster_scope:
        kept = texts(sorted(kind for _, kind in KEPT_KINDS))
        clauses.append(f"request.kind.kind in {kept} && {_own_labels_differ('oldObject', 'object')}")
    # A Pod is its own template, whose labels are its own.
    pods = [row for row in rows if () in row.templates]
    built_in = [row for row in rows if row.group in NAMESPACED_GROUPS and row not in pods]
    others = [row for row in rows if row not in pods and row not in built_in]
    # A key in a template, in a claim template of its volumes, or in a map of copied labels.
    holders = _by_kind(((row, (*row.templates, *row.jobs, *row.claims)) for row in built_in), "object")
    copied = _by_kind(((row, row.copied_labels) for row in built_in), "object")
    of_holder = f"{at('h', LABELS, _looks_reserved)} ||\n  {_claims_look_reserved('h')}"
    looked = f"({holders}).exists(h,\n  {of_holder}) || ({copied}).exists(l, {_looks_reserved('l')})"
    judged = (
        (others, "true"), (pods, _claims_look_reserved("object")), (built_in, let("kind", KIND, looked)),
    )  # fmt: skip
    for of_kinds, clause in judged:
        if of_kinds:
            clauses.append(f"request.kind.kind in {texts(dict.fromkeys(row.kind for row in of_kinds))} && {clause}")
    return some(clauses, " ||\n  ")


def _claims_look_reserved(holder: str) -> str:
    return f"{values(holder, (*_EPHEMERAL_CLAIM, *LABELS))}.exists(l, {_looks_reserved('l')})"


def _own_labels_differ(new: str, old: str) -> str:
    """Whether an object's own labels have a key that looks reserved, and are not the same in `old`.

    Equal maps are cheaper to compare than their keys are to judge: Nodes carry dozens of reserved labels.
    """
    return at(
        new, LABELS, lambda labels: f"{_looks_reserved(labels)} && !({at(old, LABELS, f'{{}} == {labels}'.format)})"
    )


def _looks_reserved(labels: str) -> str:
    return f"{is_map(labels)} && {labels}.exists(k, k.contains({text(RESERVED_PART)}))"


def _by_kind(
    places: Iterable[tuple[Workload, Sequence[Pattern]]], base: str, listed: Callable[[str, Pattern], str] = values
) -> str:
    """The list of the values at the places of the kind. Kinds with equal places share a list."""
    kinds: dict[str, list[str]] = {}
    for row, patterns in places:
        if patterns:
            found = " + ".join(listed(base, pattern) for pattern in patterns)
            kinds.setdefault(found, []).append(f"{row.group}/{row.kind}")
    return by_kind((names, found) for found, names in kinds.items())


def _by_places(rows: Iterable[Workload], places: str) -> list[tuple[list[str], str]]:
    """Kinds, as group/kind, with the CEL list of pairs for one sort of places. Kinds with equal places share a list.

    Pod templates of another shape are listed as Kubernetes writes them, and maps of Pods' labels as such templates.
    """
    kinds_by_list: dict[str, list[str]] = {}
    for row in rows:
        lists = [pairs(pattern) for pattern in getattr(row, places) if not split(pattern)[1]]
        if places == "templates":
            if row.shape != STANDARD:
                labels = f"{steps('x', row.shape.labels)}.optMap(l, dyn({{'labels': l}}))"
                view = f"{{?'metadata': {labels}, ?'spec': {steps('x', row.shape.spec)}}}"
                lists = [_viewed(listed, view) for listed in lists]
            lists += [_viewed(pairs(pattern), "{'metadata': {'labels': x}}") for pattern in row.pod_labels]
        if lists:
            kinds_by_list.setdefault(" + ".join(lists), []).append(f"{row.group}/{row.kind}")
    return [(kinds, listed) for listed, kinds in kinds_by_list.items()]


def _within(rows: Iterable[Workload], places: str, predicate: str) -> Iterator[str]:
    """Clauses for the places behind two wildcards: whether the predicate is true of one of the pairs, `p`."""
    for row in rows:
        for outer, inner in map(split, getattr(row, places)):
            if inner:
                listed = f"{pairs(outer)}.exists(o,\n    {pairs(inner, 'o[0]', 'o[1]')}.exists(p, {predicate}))"
                yield f"kind == {text(f'{row.group}/{row.kind}')} && {listed}"


def _viewed(listed: str, view: str) -> str:
    return f"{listed}.map(p, p.map(x, type(x) == map ? {view} : {{}}))"


def _claims(pair: str) -> str:
    return f"{pairs(_EPHEMERAL_CLAIM, f'{pair}[0]', f'{pair}[1]')}.exists(c, {_added('c[0]', 'c[1]', [])})"


def _labels(holder: str) -> str:
    """A list with the map `metadata.labels` of an object or template of any shape; empty if there is none."""
    steps = "".join(f".map(x, type(x) == map && has(x.{key}), x.{key})" for key in LABELS)
    return f"[{holder}]{steps}.filter(x, type(x) == map)"


def _added(new: str, old: str, allowed: Sequence[str]) -> str:
    """Whether `new` has a reserved label that `old` lacks and that no clause about `k` and `v` allows."""
    return _added_to_map(_labels(new), _labels(old), allowed)


def _added_to_map(new: str, old: str, allowed: Sequence[str]) -> str:
    same = f"{old}.exists(o, k in o && o[k] == v)"
    reserved = every([RESERVED, f"!{same}", *(f"!({clause})" for clause in allowed)])
    return f"{new}.exists(l, l.exists(k, v, {reserved}))"


def _allowed_by_kind(exceptions: Sequence[LabelException]) -> list[str]:
    allowed = []
    for exception in exceptions:
        kinds = exception.kinds - {POD}
        if kinds:
            clauses = [f"kind in {texts(sorted(f'{group}/{kind}' for group, kind in kinds))}", is_excepted(exception)]
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


def is_excepted(exception: LabelException) -> str:
    """Whether a label, `k` with the value `v`, is one of an exception."""
    key = f"k == {text(exception.key)}"
    return f"({key} && v in {texts(sorted(exception.values))})" if exception.values else key
