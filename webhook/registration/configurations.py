"""Makes the service's webhook configurations from its rules. Pure.

There is one entry per group of hooks, so that each has its own failure policy, conditions and path. Objects in the
service's own Namespace are excluded, so that the service can always be repaired. Entries set all fields that limit when
they apply, even to the API server's defaults: nobody owns an unset field, so that a later addition by others would
stay.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from policies.engine.facts import NAME_LABEL
from policies.engine.match import SelectorRequirement, common
from policies.engine.request import JsonObject
from policies.engine.requester import CONTROL_PLANE, CONTROL_PLANE_LABEL
from policies.engine.rule import Hook, HookCondition, Phase, Rule, Scope
from policies.engine.ruleset import RuleSet
from policies.labels import RULE as LABELS
from webhook.configuration.settings import Settings

DOMAIN = "cks-admission.dev"
API_VERSION = "admissionregistration.k8s.io/v1"
INJECT_CA_FROM = "cert-manager.io/inject-ca-from"
"""The annotation that makes cert-manager write the CA of a Certificate (namespace/name) into every caBundle."""

UNREGISTER = "cks-admission.dev/unregister"
"""The annotation which announces, with the value `true`, that the configurations will be deleted permanently."""

CONCERNED = "is-concerned"
"""The name of a condition that joins several, whose names its text says."""

KINDS: dict[Phase, str] = {"mutate": "MutatingWebhookConfiguration", "validate": "ValidatingWebhookConfiguration"}


class Client(Struct, frozen=True):
    """How the API server reaches the service: a base URL or a Service. ca_bundle: PEM; empty for the system's roots."""

    ca_bundle: bytes
    url: str = ""
    namespace: str = ""
    service: str = ""
    port: int = 443

    def to_json(self, path: str) -> JsonObject:
        """The clientConfig for a path."""
        bundle = {"caBundle": base64.b64encode(self.ca_bundle).decode("ascii")} if self.ca_bundle else {}
        if self.url:
            return {"url": self.url.rstrip("/") + path, **bundle}
        service = {"name": self.service, "namespace": self.namespace, "path": path, "port": self.port}
        return {"service": service, **bundle}


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
    """The webhook configurations for the settings. ca_bundle: PEM with which the API server verifies the service."""
    chosen = settings.registration
    return configurations(
        ruleset,
        Client(ca_bundle, chosen.url, settings.cluster.namespace, chosen.service, chosen.service_port),
        name=chosen.name,
        own_namespace=settings.cluster.namespace,
        timeout_seconds=chosen.timeout_seconds,
        inject_ca_from=chosen.inject_ca_from,
    )


def configurations(
    ruleset: RuleSet, client: Client, *, name: str, own_namespace: str, timeout_seconds: int, inject_ca_from: str = ""
) -> list[JsonObject]:
    """The MutatingWebhookConfiguration and the ValidatingWebhookConfiguration, without those that have no entries.

    inject_ca_from: the Certificate whose CA cert-manager writes into them; empty for none.
    """
    metadata: dict[str, Any] = {"name": name, "labels": {"app.kubernetes.io/name": "cks-admission"}}
    if inject_ca_from:
        metadata["annotations"] = {INJECT_CA_FROM: inject_ca_from}
    written = []
    for phase, kind in KINDS.items():
        webhooks = [
            _webhook(phase, hooks, rules, client, own_namespace, timeout_seconds)
            for hooks, rules in _entries(ruleset, phase)
        ]
        if webhooks:
            written.append({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "webhooks": webhooks})
    return written


def _entries(ruleset: RuleSet, phase: Phase) -> list[tuple[list[Hook], list[Rule]]]:
    """The hooks of a phase by group and scope, with their rules."""
    entries: dict[tuple[str, Scope], tuple[list[Hook], list[Rule]]] = {}
    for rule in ruleset.rules:
        for hook in rule.hooks:
            if hook.phase == phase:
                hooks, rules = entries.setdefault((hook.group, hook.scope), ([], []))
                hooks.append(hook)
                rules.append(rule)
    return list(entries.values())


def _webhook(
    phase: Phase, hooks: Sequence[Hook], rules: Sequence[Rule], client: Client, own_namespace: str, timeout_seconds: int
) -> JsonObject:
    group, scope = hooks[0].group, hooks[0].scope
    webhook: dict[str, Any] = {
        "name": f"cluster-{group}.{DOMAIN}" if scope == "Cluster" else f"{group}.{DOMAIN}",
        "admissionReviewVersions": ["v1"],
        "clientConfig": client.to_json(f"/{phase}/{group}"),
        "failurePolicy": "Fail" if any(hook.failure_policy == "Fail" for hook in hooks) else "Ignore",
        "matchConditions": _conditions(hooks),
        "matchPolicy": "Exact" if all(hook.exact for hook in hooks) else "Equivalent",
        "namespaceSelector": {} if scope == "Cluster" else _namespace_selector(hooks, rules, own_namespace),
        "objectSelector": {},
        "rules": _rules(hooks, scope),
        "sideEffects": "None",
        "timeoutSeconds": timeout_seconds,
    }
    if phase == "mutate":
        # A later change by another webhook, such as a GPU container, may change the answer. The rules are idempotent.
        webhook["reinvocationPolicy"] = "IfNeeded" if any(hook.reinvoked for hook in hooks) else "Never"
    return webhook


def _rules(hooks: Iterable[Hook], scope: Scope) -> list[JsonObject]:
    rules = dict.fromkeys(rule for hook in hooks for rule in hook.resources)
    return [rule.to_json(scope) for rule in rules]


def _conditions(hooks: Sequence[Hook]) -> list[JsonObject]:
    """The condition that all conditions of any hook are true; none if a hook has none.

    It is one expression, for the API server evaluates every condition of an entry, even after one that is false. `&&`
    ends at the first, so a hook's cheapest condition comes first.
    """
    alternatives = list(dict.fromkeys(hook.conditions for hook in hooks))
    if () in alternatives:
        return []
    if len(alternatives) == 1 and len(alternatives[0]) == 1:
        (condition,) = alternatives[0]
        return [{"name": condition.name, "expression": condition.expression}]
    return [{"name": CONCERNED, "expression": " ||\n".join(map(_all, alternatives))}]


def _all(conditions: Iterable[HookCondition]) -> str:
    """The conjunction, each condition under its name as a comment."""
    return "(" + " &&\n".join(f"// {condition.name}\n({condition.expression})" for condition in conditions) + ")"


def _namespace_selector(hooks: Sequence[Hook], rules: Sequence[Rule], own_namespace: str) -> JsonObject:
    """The namespaceSelector of an entry. A rule's own selector can be used only if the rule is alone in the entry.

    The requirements that all hooks share are included, so that an outage does not affect Namespaces that no policy
    matches.
    """
    requirements = [SelectorRequirement(NAME_LABEL, "NotIn", (own_namespace,))]
    if rules[0].name == LABELS:
        # It uses the existing Namespace, so the request itself cannot change it.
        requirements.append(SelectorRequirement(CONTROL_PLANE_LABEL, "NotIn", (CONTROL_PLANE,)))
    if len({rule.name for rule in rules}) == 1:
        requirements += rules[0].namespaces.requirements
    requirements += common(hook.namespaces for hook in hooks).requirements
    return {"matchExpressions": [requirement.to_json() for requirement in requirements]}
