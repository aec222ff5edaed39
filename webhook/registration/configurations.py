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
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from hashlib import sha256
from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from policies.celtext import texts
from policies.engine.facts import NAME_LABEL
from policies.engine.match import LabelSelector, Operator, ResourceRule, SelectorRequirement, common
from policies.engine.request import JsonObject
from policies.engine.rule import FailurePolicy, Hook, HookCondition, Phase, Rule, RuleSet, Scope
from policies.engine.safety import CONTROL_PLANE, CONTROL_PLANE_LABEL, Safety
from policies.labels import RULE as LABELS
from policies.matchconditions import RESOURCE, is_essential, is_not_essential
from webhook.configuration import rules
from webhook.configuration.settings import Settings
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


class Owner(Struct, frozen=True):
    """The ClusterRole that owns the configurations, so that its deletion deletes them."""

    name: str
    uid: str

    def to_json(self) -> JsonObject:
        """The ownerReference. Without blockOwnerDeletion it needs no right to the owner's finalizers."""
        return {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "name": self.name,
            "uid": self.uid,
            "controller": False,
            "blockOwnerDeletion": False,
        }


def is_own(entry: JsonObject) -> bool:
    """Whether an entry of a configuration belongs to the service, by its name."""
    return str(entry["name"]).endswith(f".{DOMAIN}")


def owned(configuration: JsonObject, owner: Owner) -> JsonObject:
    """The same configuration with an owner, whose deletion deletes it."""
    return {**configuration, "metadata": {**configuration["metadata"], "ownerReferences": [owner.to_json()]}}


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
        entries = (_entry(hooks, settings.cluster.namespace) for hooks in _grouped(ruleset, phase))
        webhooks = [
            _webhook(phase, one, settings, ca_bundle) for entry in entries for one in parts(entry, ruleset.safety)
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


def _grouped(ruleset: RuleSet, phase: Phase) -> Iterable[Sequence[tuple[Hook, Rule]]]:
    """The hooks of a phase by group and scope, each with its rule."""
    entries: dict[tuple[str, Scope], list[tuple[Hook, Rule]]] = {}
    for rule in ruleset.rules:
        for hook in rule.hooks:
            if hook.phase == phase:
                entries.setdefault((hook.group, hook.scope), []).append((hook, rule))
    return entries.values()


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
    waits = chosen.timeout_seconds
    if entry.failure_policy == "Ignore":
        waits = min(waits, chosen.open_timeout_seconds)
    requirements = [requirement.to_json() for requirement in entry.requirements]
    webhook: dict[str, Any] = {
        "name": f"{entry.name}.{DOMAIN}",
        "admissionReviewVersions": ["v1"],
        "clientConfig": _client(settings, ca_bundle, entry.path),
        "failurePolicy": entry.failure_policy,
        "matchConditions": _joined(entry.conditions),
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


def _client(settings: Settings, ca_bundle: bytes, path: str) -> JsonObject:
    """How the API server reaches a path of the service: by a URL or a Service."""
    chosen = settings.registration
    bundle = {"caBundle": base64.b64encode(ca_bundle).decode("ascii")} if ca_bundle else {}
    if chosen.url:
        return {"url": chosen.url.rstrip("/") + path, **bundle}
    namespace = settings.cluster.namespace
    service = {"name": chosen.service, "namespace": namespace, "path": path, "port": chosen.service_port}
    return {"service": service, **bundle}


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


def _joined(conditions: tuple[HookCondition, ...]) -> list[JsonObject]:
    """One condition instead of several, since the API server evaluates every one, even after one that is false.

    `&&` ends at the first that is false, so the cheapest condition comes first.
    """
    if not conditions:
        return []
    joined = conditions[0] if len(conditions) == 1 else HookCondition(CONCERNED, _all(conditions))
    return [{"name": joined.name, "expression": joined.expression}]


def _all(conditions: Iterable[HookCondition]) -> str:
    """The conjunction, each condition under its name as a comment."""
    return "(" + " &&\n".join(f"// {condition.name}\n({condition.expression})" for condition in conditions) + ")"
