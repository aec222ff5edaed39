"""The service's webhook configurations, made from its rules. Pure.

There is one entry per group of hooks, so that each has its own failure policy, conditions and path. Objects in the
service's own Namespace are excluded, so that the service can always be repaired. Entries set all fields that limit when
they apply, even to the API server's defaults: nobody owns an unset field, so that a later addition by others would
stay.

A group that fails closed is registered in parts with the same path, so that no outage stops what a cluster needs:

- the ordinary part fails closed, outside of essential Namespaces, for what is not essential;
- the `system-` part fails open, in essential Namespaces. Its selector spares the API server a condition;
- the `essential-` part fails open, outside of essential Namespaces, for what is essential. It covers only what the
  group matches of that, so most groups have none, and no condition either.

While replicas of several versions run, an entry that fails closed needs replicas that know its path: another replica
answers 503, and the write is refused.

What is registered is compared with that, and what differs is written. Others may add labels, annotations, owners and
their own entries. To the service's entries they may add only the requirements that a cloud adds to every webhook: for
example, a condition that is never true would switch an entry off.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from hashlib import sha256
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from policies.celtext import texts
from policies.engine.facts import NAME_LABEL
from policies.engine.match import LabelSelector, ResourceRule, SelectorRequirement, common
from policies.engine.request import JsonObject
from policies.engine.rule import FailurePolicy, Hook, HookCondition, Phase, Rule, RuleSet, Scope
from policies.engine.safety import CONTROL_PLANE, CONTROL_PLANE_LABEL, Safety
from policies.kubernetes import name
from policies.labels import RULE as LABELS
from policies.matchconditions import RESOURCE, is_essential, is_not_essential
from webhook.configuration import rules
from webhook.configuration.settings import KeptRequirement, Settings
from webhook.registration.resources import API_VERSION

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
    # None without a selector, or where no Namespace is essential.
    names = safety.namespaces if entry.requirements else ()
    others = (SelectorRequirement(NAME_LABEL, "NotIn", names),) if names else ()
    condition = (is_not_essential(writes, safety.users),) if writes else ()
    yield replace(entry, requirements=(*entry.requirements, *others), conditions=(*entry.conditions, *condition))
    opened = replace(entry, failure_policy="Ignore", is_essential=True)
    # Of what it matches, Namespaces and the objects in them: a selector does not choose other objects.
    objects: Resources = tuple((rule, "Namespaced") for rule, scope in entry.resources if scope != "Cluster")
    themselves = (rule.intersection(_NAMESPACES) for rule, scope in entry.resources if scope != "Namespaced")
    system = (*objects, *dict.fromkeys((rule, _CLUSTER) for rule in themselves if rule is not None))
    if system and names:
        selected = (*entry.requirements, SelectorRequirement(NAME_LABEL, "In", names))
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


DOMAIN = "cks-admission.dev"
INJECT_CA_FROM = "cert-manager.io/inject-ca-from"
"""The annotation that makes cert-manager write the CA of a Certificate (namespace/name) into every caBundle."""

UNREGISTER = "cks-admission.dev/unregister"
"""The annotation which announces, with the value `true`, that the configurations will be deleted permanently."""

CONCERNED = "is-concerned"
"""The name of a condition that joins several, whose names its text says."""

KINDS: dict[Phase, str] = {"mutate": "MutatingWebhookConfiguration", "validate": "ValidatingWebhookConfiguration"}

_OWN_LABELS = {"app.kubernetes.io/name": "cks-admission"}

POLICY_KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
"""The kinds of the policy by which the API server enforces the rule of reserved labels itself."""

STATIC = ".static.k8s.io"
"""How the names of policies in files of kube-apiserver end, and no others: Kubernetes 1.37, KEP-5793."""


def is_own(entry: JsonObject) -> bool:
    """Whether an entry of a configuration belongs to the service, by its name."""
    return str(entry["name"]).endswith(f".{DOMAIN}")


def registered(settings: Settings, ca_bundle: bytes, ruleset: RuleSet) -> list[JsonObject]:
    """The MutatingWebhookConfiguration and the ValidatingWebhookConfiguration, without those that have no entries.

    ca_bundle: PEM with which the API server verifies the service; empty for the system's roots.
    """
    chosen = settings.registration
    metadata: dict[str, Any] = {"name": chosen.name, "labels": _OWN_LABELS}
    if chosen.inject_ca_from:
        metadata["annotations"] = {INJECT_CA_FROM: chosen.inject_ca_from}
    made = []
    for phase, kind in KINDS.items():
        groups: dict[tuple[str, Scope], list[tuple[Hook, Rule]]] = {}
        for rule in ruleset.rules:
            for hook in rule.hooks:
                if hook.phase == phase:
                    groups.setdefault((hook.group, hook.scope), []).append((hook, rule))
        entries = (_entry(hooks, settings.cluster.namespace) for hooks in groups.values())
        webhooks = [
            _webhook(phase, part, settings, ca_bundle) for entry in entries for part in parts(entry, ruleset.safety)
        ]
        if webhooks:
            made.append({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "webhooks": webhooks})
    return made


def policy(name: str, spec: JsonObject, action: str = "Deny", binding: str = "") -> dict[str, JsonObject]:
    """The policy with a spec and its binding, by kind. binding: the name of that, if it has another one."""
    bound = {"policyName": name, "validationActions": [action]}
    parts = zip(POLICY_KINDS, (name, binding or name), (spec, bound), strict=True)
    return {
        kind: {
            "apiVersion": API_VERSION,
            "kind": kind,
            "metadata": {"name": called, "labels": _OWN_LABELS},
            "spec": content,
        }
        for kind, called, content in parts
    }


def static_policies(settings: Settings) -> list[JsonObject]:
    """The guard for files of kube-apiserver, first policy and binding of reserved labels; names lack STATIC.

    Nobody can read these files through the API, but refusals name the binding: a digest in its name tells of which
    settings they are.
    """
    name, admission = settings.registration.name, settings.guard.admission
    if settings.labels.action != "deny":
        return []
    specs = rules.labels_policy(settings, (), (), date.min), rules.admission_policy(settings)
    digest = sha256(json.dumps([specs, admission]).encode()).hexdigest()[:8]
    made = [*policy(name, specs[0], binding=f"{name}-{digest}").values()]
    if admission != "off":
        made += policy(f"{name}-admission", specs[1], admission.capitalize()).values()
    return made


def guards(configuration: JsonObject | None) -> bool:
    """Whether a configuration has entries for the rule of reserved labels."""
    return any(map(_is_guard, (configuration or {}).get("webhooks") or ()))


def without_guard(made: Mapping[str, JsonObject]) -> dict[str, JsonObject]:
    """The configurations, by kind, without entries for the rule of reserved labels, and without empty ones."""
    kept = {
        kind: {**one, "webhooks": [entry for entry in one["webhooks"] if not _is_guard(entry)]}
        for kind, one in made.items()
    }
    return {kind: one for kind, one in kept.items() if one["webhooks"]}


def _is_guard(entry: JsonObject) -> bool:
    return entry["name"] in (f"{LABELS}.{DOMAIN}", f"cluster-{LABELS}.{DOMAIN}")


def _entry(pairs: Sequence[tuple[Hook, Rule]], own_namespace: str) -> Entry:
    hooks = [hook for hook, _ in pairs]
    phase, group, scope = hooks[0].phase, hooks[0].group, hooks[0].scope
    resources = dict.fromkeys(rule for hook in hooks for rule in hook.resources)
    requirements = [SelectorRequirement(NAME_LABEL, "NotIn", (own_namespace,))]
    if any(rule.name == LABELS for _, rule in pairs):
        # It uses the existing Namespace, so the request itself cannot change it.
        requirements.append(SelectorRequirement(CONTROL_PLANE_LABEL, "NotIn", (CONTROL_PLANE,)))
    both = (LabelSelector((*rule.namespaces.requirements, *hook.namespaces.requirements)) for hook, rule in pairs)
    return Entry(
        name=f"cluster-{group}" if scope == "Cluster" else group,
        path=f"/{phase}/{group}",
        failure_policy="Fail" if any(hook.failure_policy == "Fail" for hook in hooks) else "Ignore",
        resources=tuple((rule, scope) for rule in resources),
        requirements=() if scope == "Cluster" else tuple(dict.fromkeys((*requirements, *common(both).requirements))),
        conditions=_conditions(hooks),
        exact=all(hook.exact for hook in hooks),
        reinvoked=any(hook.reinvoked for hook in hooks),
        is_whole=all(hook.everywhere for hook in hooks),
    )


def _webhook(phase: Phase, entry: Entry, settings: Settings, ca_bundle: bytes) -> JsonObject:
    chosen = settings.registration
    namespace, port = settings.cluster.namespace, chosen.service_port
    service = {"name": chosen.service, "namespace": namespace, "path": entry.path, "port": port}
    client: dict[str, Any] = {"url": chosen.url.rstrip("/") + entry.path} if chosen.url else {"service": service}
    if ca_bundle:
        client["caBundle"] = base64.b64encode(ca_bundle).decode("ascii")
    waits = chosen.timeout_seconds
    if entry.failure_policy == "Ignore":
        waits = min(waits, chosen.open_timeout_seconds)
    requirements = [requirement.to_json() for requirement in entry.requirements]
    # One condition instead of several, since the API server evaluates every one, even after one that is false. `&&`
    # ends at the first that is false, so the cheapest comes first.
    conditions = entry.conditions
    if len(conditions) > 1:
        conditions = (HookCondition(CONCERNED, _all(conditions)),)
    webhook: dict[str, Any] = {
        "name": f"{entry.name}.{DOMAIN}",
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": entry.failure_policy,
        "matchConditions": [{"name": joined.name, "expression": joined.expression} for joined in conditions],
        "matchPolicy": "Exact" if entry.exact else "Equivalent",
        "namespaceSelector": {"matchExpressions": requirements} if requirements else {},
        "objectSelector": {},
        "rules": [rule.to_json(scope) for rule, scope in entry.resources],
        "sideEffects": "None",
        "timeoutSeconds": min(waits, chosen.essential_timeout_seconds) if entry.is_essential else waits,
    }
    if phase == "mutate":
        # A later change by another webhook, such as a GPU container, may change the answer. The rules are idempotent.
        webhook["reinvocationPolicy"] = "IfNeeded" if entry.reinvoked else "Never"
    return webhook


def _conditions(hooks: Sequence[Hook]) -> tuple[HookCondition, ...]:
    """The conditions for which an entry is asked: those of any hook, each for the resources of its hooks.

    The shortest comes first, which is the cheapest: `||` ends at the first that is true.
    """
    alternatives: dict[tuple[HookCondition, ...], list[ResourceRule]] = {}
    for hook in hooks:
        alternatives.setdefault(hook.conditions, []).extend(hook.resources)
    if len(alternatives) == 1:
        return hooks[0].conditions
    everything, always = (_names(rules) for rules in (chain(*alternatives.values()), alternatives.get((), ())))
    if "*" in always or everything == always:
        return ()
    clauses = []
    for conditions, matched in sorted(
        alternatives.items(), key=lambda item: sum(len(one.expression) for one in item[0])
    ):
        names = _names(matched)
        among = [] if "*" in names or names == everything else [f"{RESOURCE} in {texts(sorted(names))}"]
        clauses.append(" && ".join((*among, *([_all(conditions)] if conditions else ()))))
    return (HookCondition(CONCERNED, " ||\n".join(clauses)),)


def _names(rules: Iterable[ResourceRule]) -> frozenset[str]:
    """The resources of rules, as group/resource, without subresources; `*` where that is not all."""
    pairs = {(group, name.partition("/")[0]) for rule in rules for group in rule.groups for name in rule.resources}
    return frozenset("*" if "*" in pair else "/".join(pair) for pair in pairs)


def _all(conditions: Iterable[HookCondition]) -> str:
    """The conjunction, each condition under its name as a comment."""
    return "(" + " &&\n".join(f"// {condition.name}\n({condition.expression})" for condition in conditions) + ")"


_OWN_PATH = re.compile(r"/(?:mutate|validate)(?:/[^/]+)*\Z")


class Announcement(Struct, frozen=True):
    """What a replica's Pod says. ready: whether calls reach it. paths: those that it answers; None until it said so."""

    name: str
    ready: bool
    paths: frozenset[str] | None


def path_of(entry: JsonObject) -> str:
    """The path that the API server calls for an entry, without that of a base URL."""
    client: Any = entry["clientConfig"]
    service = client.get("service")
    path = str(service.get("path") or "/") if service else urlsplit(str(client.get("url", ""))).path
    match = _OWN_PATH.search(path)
    return match[0] if match else path


def closed_paths(configurations: Iterable[JsonObject]) -> list[str]:
    """The paths of the service's entries that fail closed."""
    entries = (entry for configuration in configurations for entry in configuration.get("webhooks") or ())
    closed = (entry for entry in entries if is_own(entry) and entry.get("failurePolicy", "Fail") == "Fail")
    return list(dict.fromkeys(map(path_of, closed)))


def announced(
    desired: Mapping[str, JsonObject], observed: Mapping[str, JsonObject], replicas: Sequence[Announcement]
) -> tuple[dict[str, JsonObject], list[str]]:
    """The desired configurations without what replicas do not know yet, and a text for each entry that is left out.

    desired, observed: by kind. An entry that fails closed is left out while any replica is known not to answer its
    path, ready or not, because it will be ready soon or still has connections. The other parts of its group are left
    out with it. One that is not registered yet also waits until every ready replica has said what it answers, and there
    is one. A replica that does not answer, as in a partition of the network, takes away nothing that is registered.
    """
    present = {(kind, path) for kind, configuration in observed.items() for path in closed_paths([configuration])}
    remaining, withheld = {}, []
    for kind, configuration in desired.items():
        closed = [entry for entry in configuration["webhooks"] if entry["failurePolicy"] == "Fail"]
        obstacles: dict[str, list[str]] = {}
        for entry in closed:
            path = path_of(entry)
            names = [replica.name for replica in replicas if replica.paths is not None and path not in replica.paths]
            if not names and (kind, path) not in present:
                ready = [replica for replica in replicas if replica.ready]
                names = (
                    [replica.name for replica in ready if replica.paths is None] if ready else ["no replica is ready"]
                )
            if names:
                obstacles[path] = names
                withheld.append(
                    f"{entry['name']} fails closed at {path}, and is not registered before all replicas answer there: "
                    f"{', '.join(names)}"
                )
        webhooks = [entry for entry in configuration["webhooks"] if path_of(entry) not in obstacles]
        if webhooks:
            remaining[kind] = {**configuration, "webhooks": webhooks}
    return remaining, withheld


MANAGER = "cks-admission"
"""The field manager of the service's writes."""

_SELECTORS = frozenset({"namespaceSelector", "objectSelector"})


class Writer(NamedTuple):
    """A field manager and the time of its write, from managedFields; empty if unknown."""

    manager: str
    time: str


class Correction(NamedTuple):
    """What to do about an observed configuration.

    configuration: what to apply; None for nothing. differences: the reasons, a line each; empty if there is nothing to
    do.
    """

    configuration: JsonObject | None
    differences: Sequence[str]


class Managed(Struct, frozen=True):
    """A configuration, policy or binding that the service writes; None if there should be none.

    kept: what clouds may add to a configuration. Nobody adds to the spec of a policy.
    """

    configuration: JsonObject | None
    kept: tuple[KeptRequirement, ...] = ()

    def correction(self, observed: JsonObject | None) -> Correction:
        """The whole object is applied. An observed one that should not exist is a difference."""
        if self.configuration is None:
            return Correction(None, [] if observed is None else ["no rule needs it"])
        if observed is None:
            return Correction(self.configuration, ["it does not exist"])
        desired = kept(injected(self.configuration, observed), observed, self.kept)
        return Correction(_same_object(desired, observed), difference(desired, observed))

    def replacement(self, observed: JsonObject) -> JsonObject | None:
        """The observed object, with what belongs to the service exactly as desired."""
        if self.configuration is None:
            return None
        return restored(kept(injected(self.configuration, observed), observed, self.kept), observed)


class BundleOnly(Struct, frozen=True):
    """A configuration that somebody else applies, except for each entry's caBundle. bundle: PEM; empty for none."""

    bundle: bytes

    def correction(self, observed: JsonObject | None) -> Correction:
        """Only the caBundles of the service's entries are applied. A missing configuration is not created."""
        own = [] if observed is None else [entry for entry in _entries(observed) if is_own(entry)]
        if observed is None or not own or not self.bundle:
            return Correction(None, [])
        encoded = base64.b64encode(self.bundle).decode("ascii")
        desired = {
            "apiVersion": API_VERSION,
            "kind": observed["kind"],
            "metadata": {"name": observed["metadata"]["name"]},
            "webhooks": [{"name": entry["name"], "clientConfig": {"caBundle": encoded}} for entry in own],
        }
        differing = [entry["name"] for entry in own if entry["clientConfig"].get("caBundle") != encoded]
        return Correction(_same_object(desired, observed), [f"{name}: caBundle" for name in differing])

    def replacement(self, _: JsonObject) -> JsonObject | None:
        """None, because the service manages nothing else in it."""
        return None


WriteTarget = Managed | BundleOnly
"""The target of a configuration."""


def kept(desired: JsonObject, observed: JsonObject, allowed: Sequence[KeptRequirement]) -> JsonObject:
    """The desired configuration, with the allowed requirements that a cloud added to each entry's namespaceSelector."""
    there, webhooks = {entry["name"]: entry for entry in _entries(observed)}, []
    for entry in _entries(desired):
        own = _requirements(entry.get("namespaceSelector"))
        known = {_normal(requirement) for requirement in own}
        added = {
            _normal(requirement): requirement
            for requirement in _requirements(there.get(entry["name"], {}).get("namespaceSelector"))
            if _may_stay(requirement, allowed) and _normal(requirement) not in known
        }
        selector = {**entry.get("namespaceSelector", {}), "matchExpressions": [*own, *added.values()]}
        webhooks.append({**entry, "namespaceSelector": selector} if added else entry)
    return _with_entries(desired, webhooks)


def _with_entries(desired: JsonObject, webhooks: Sequence[JsonObject]) -> JsonObject:
    """The object with these entries, if it is one that has entries and not a spec."""
    return {**desired, "webhooks": webhooks} if "webhooks" in desired else desired


def injected(desired: JsonObject, observed: JsonObject) -> JsonObject:
    """The desired configuration, with the observed caBundles if cert-manager writes them.

    A new entry starts with the caBundle of another one: until cert-manager's injector writes it, the API server would
    otherwise refuse what fails closed. If the observed configuration lacks cert-manager's annotation, its caBundles are
    ignored, because somebody else wrote them.
    """
    if not all(
        INJECT_CA_FROM in (configuration["metadata"].get("annotations") or {}) for configuration in (desired, observed)
    ):
        return desired
    bundles = (entry["clientConfig"].get("caBundle") for entry in _entries(observed) if is_own(entry))
    return with_bundles(desired, observed, next(filter(None, bundles), None))


def with_bundles(desired: JsonObject, observed: JsonObject, other: str | None = None) -> JsonObject:
    """The desired configuration with the observed caBundles. other: the caBundle (base64) of entries without one."""
    bundles = {entry["name"]: entry["clientConfig"].get("caBundle") for entry in _entries(observed)}
    webhooks = []
    for entry in _entries(desired):
        bundle = bundles.get(entry["name"]) or other
        client = {**entry["clientConfig"], "caBundle": bundle} if bundle else entry["clientConfig"]
        webhooks.append({**entry, "clientConfig": client})
    return _with_entries(desired, webhooks)


def difference(desired: JsonObject, observed: JsonObject) -> list[str]:
    """The differences, a line each, for people. What others may add is not a difference."""
    metadata, wanted = observed["metadata"], desired["metadata"]
    differences = [
        f"{place[:-1]} {key}"
        for place in ("labels", "annotations")
        for key, value in (wanted.get(place) or {}).items()
        if (metadata.get(place) or {}).get(key) != value
    ]
    owners = {owner["uid"] for owner in metadata.get("ownerReferences") or ()}
    missing = (owner for owner in wanted.get("ownerReferences", ()) if owner["uid"] not in owners)
    differences += [f"owner {owner['kind']} {owner['name']}" for owner in missing]
    if "spec" in desired:
        spec, other_spec = desired["spec"], observed.get("spec") or {}
        fields = (
            field
            for field in sorted({*spec, *other_spec})
            if (spec.get(field) or None) != (other_spec.get(field) or None)
        )
        return differences + [f"spec.{field}" for field in fields]
    there = {entry["name"]: entry for entry in _entries(observed)}
    for entry in _entries(desired):
        other = there.pop(entry["name"], None)
        if other is None:
            differences.append(f"{entry['name']}: missing")
            continue
        # Only the fields that the service writes: newer ones are unknown here.
        for field, value in entry.items():
            here, elsewhere = (_comparable(field, side) for side in (value, other.get(field)))
            if here != elsewhere:
                differences.append(f"{entry['name']}: {_described(field, here, elsewhere)}")
    return [*differences, *(f"{entry['name']}: not wanted" for entry in there.values() if is_own(entry))]


def restored(desired: JsonObject, observed: JsonObject) -> JsonObject:
    """The observed object with the service's entries as desired, whoever owns the differing fields.

    Fields of an entry that this release does not know stay, because the API server may have set a default.
    """
    metadata = dict(observed["metadata"])
    for place in ("labels", "annotations"):
        if added := desired["metadata"].get(place):
            metadata[place] = {**(metadata.get(place) or {}), **added}
    if owners := desired["metadata"].get("ownerReferences"):
        others = [owner for owner in metadata.get("ownerReferences") or () if owner["uid"] != owners[0]["uid"]]
        metadata["ownerReferences"] = [*others, *owners]
    if "spec" in desired:
        return {**observed, "metadata": metadata, "spec": desired["spec"]}
    there = {entry["name"]: entry for entry in _entries(observed)}
    own = [{**there.get(entry["name"], {}), **entry} for entry in _entries(desired)]
    head = {"apiVersion": desired["apiVersion"], "kind": desired["kind"]}
    return {**observed, **head, "metadata": metadata, "webhooks": [*own, *foreign(observed)]}


def foreign(observed: JsonObject) -> list[JsonObject]:
    """The entries that do not belong to the service."""
    return [entry for entry in _entries(observed) if not is_own(entry)]


def is_unregistered(observed: JsonObject) -> bool:
    """Whether an annotation announces that it will be deleted permanently."""
    return (observed["metadata"].get("annotations") or {}).get(UNREGISTER) == "true"


def changed_by(observed: JsonObject) -> Writer:
    """Who else wrote to it last, as far as is known.

    It is unknown if something was only removed, because Kubernetes records who set a field.
    """
    entries = observed["metadata"].get("managedFields") or ()
    own = max((entry.get("time", "") for entry in entries if entry.get("manager") == MANAGER), default="")
    others = (Writer(entry.get("manager", ""), entry.get("time", "")) for entry in entries)
    later = [writer for writer in others if writer.manager not in ("", MANAGER) and writer.time >= own]
    return max(later, key=lambda writer: writer.time, default=Writer("", ""))


def _may_stay(requirement: JsonObject, allowed: Iterable[KeptRequirement]) -> bool:
    key, operator = requirement["key"], requirement["operator"]
    if operator == "DoesNotExist":
        # Every Namespace has its name as a label, so this requirement would exclude all.
        return key != NAME_LABEL and any(line.key == key for line in allowed)
    return operator == "NotIn" and any(
        line.key == key and all(name.matches_glob(value, line.values) for value in requirement["values"])
        for line in allowed
    )


def _comparable(field: str, value: Any) -> Any:
    """A field's value in a form that is equal if the meaning is. In most lists the order means nothing."""
    if field in _SELECTORS:
        selector = value or {}
        return selector.get("matchLabels") or {}, {_normal(requirement) for requirement in _requirements(selector)}
    if field == "matchConditions":
        return {condition["name"]: condition["expression"] for condition in value or ()}
    return value


def _described(field: str, desired: Any, observed: Any) -> str:
    """A description of the difference between two comparable values: the values if short, the keys of maps."""
    if isinstance(desired, dict) and isinstance(observed, dict):
        differing = sorted(key for key in desired.keys() | observed.keys() if desired.get(key) != observed.get(key))
        return f"{field} {', '.join(differing)}"
    if isinstance(desired, str | int):
        return f"{field} is {observed}, not {desired}"
    return field


def _same_object(desired: JsonObject, observed: JsonObject) -> JsonObject:
    """The desired configuration with the observed uid, so that applying it cannot recreate a deleted object."""
    return {**desired, "metadata": {**desired["metadata"], "uid": observed["metadata"]["uid"]}}


def _entries(configuration: JsonObject) -> Sequence[JsonObject]:
    return configuration.get("webhooks") or ()


def _requirements(selector: JsonObject | None) -> Sequence[JsonObject]:
    return (selector or {}).get("matchExpressions") or ()


def _normal(requirement: JsonObject) -> tuple[str, str, frozenset[str]]:
    return requirement["key"], requirement["operator"], frozenset(requirement.get("values") or ())
