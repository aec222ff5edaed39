"""AdmissionReviews as the API server sends them, and small rule sets with known answers."""

import json
import time
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

from support.builders import Json, pod

from policies.engine.facts import Facts, StaticFacts
from policies.engine.interruption import look
from policies.engine.match import EVERYTHING, LabelSelector, ResourceRule
from policies.engine.request import AdmissionRequest
from policies.engine.rule import NO_MUTATION, Action, FailurePolicy, Hook, Mutation, Phase, Rule, RuleSet, Validator
from policies.engine.violation import Violation
from policies.labels import USE_OWN_PREFIX
from webhook.http.decision import Served

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
TODAY = date(2026, 3, 1)
RESERVED = {"foo.coreweave.cloud/bar": "true"}
REFUSAL = (
    "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed.\n"
    '  metadata.labels: foo.coreweave.cloud/bar="true"\n'
    f"{USE_OWN_PREFIX}"
)
ANYTHING = (ResourceRule(("*",), ("*",), ("*/*",)),)
CPU_TOLERATION = {"key": "is_cpu_compute", "operator": "Exists", "effect": "NoSchedule"}


def review(obj: Any, old: Any = None, **fields: Any) -> Json:
    """A review of a write by alice, an UPDATE if there is an old object. `fields` replace those of the request."""
    described = next((o for o in (obj, old) if isinstance(o, dict)), {})
    group, _, version = str(described.get("apiVersion", "v1")).rpartition("/")
    kind = str(described.get("kind", "Pod"))
    metadata = described.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    kinds = {"group": group, "version": version, "kind": kind}
    resources = {"group": group, "version": version, "resource": f"{kind.lower()}s"}
    request = {
        "uid": UID,
        "kind": kinds,
        "resource": resources,
        "requestKind": kinds,
        "requestResource": resources,
        "name": _text(metadata.get("name")),
        "namespace": _text(metadata.get("namespace", "default")),
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {
            "username": "alice",
            "uid": "2f1c",
            "groups": ["dev", "system:authenticated"],
            "extra": {"authentication.kubernetes.io/credential-id": ["JTI=4c5d"]},
        },
        "object": obj,
        "oldObject": old,
        "dryRun": False,
        "options": {
            "kind": "CreateOptions",
            "apiVersion": "meta.k8s.io/v1",
            "fieldManager": "kubectl-client-side-apply",
        },
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {**request, **fields}}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def body(obj: Any, old: Any = None, **fields: Any) -> bytes:
    """The bytes of `review`, on one line."""
    return json.dumps(review(obj, old, **fields), ensure_ascii=False).encode()


def refused_body(**fields: Any) -> bytes:
    """A review that the default rules refuse with `REFUSAL`."""
    return body(pod(labels=RESERVED), **fields)


def answer_of(reply: bytes | str) -> Json:
    """The response of an answering review."""
    review_ = json.loads(reply)
    assert {key: review_[key] for key in ("apiVersion", "kind")} == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
    }
    response: Json = review_["response"]
    return response


def violation(rule: str = "tidy", path: str = "metadata.name", value: str = '"x"') -> Violation:
    """A violation with a short text."""
    return Violation(rule, path, value, "is untidy", "Tidiness is required.", "Tidy up.")


class Fixed:
    """A rule that returns or raises its given results."""

    def __init__(
        self, found: Sequence[Violation] | Exception = (), mutation: Mutation | Exception = NO_MUTATION
    ) -> None:
        self.found = found
        self.mutation = mutation

    def validate(self, _request: AdmissionRequest, _facts: Facts) -> Sequence[Violation]:
        """What was given."""
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def mutate(self, _request: AdmissionRequest, _facts: Facts) -> Mutation:
        """What was given."""
        if isinstance(self.mutation, Exception):
            raise self.mutation
        return self.mutation


class NeedsNamespaces:
    """A rule that looks up the labels of Namespaces, and finds no violation once it has them."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def validate(self, _request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
        """Look every Namespace up."""
        for name in self.names:
            facts.namespace_labels(name)
        return ()

    def mutate(self, request: AdmissionRequest, facts: Facts) -> Mutation:
        """As above."""
        self.validate(request, facts)
        return NO_MUTATION


def spinning(seconds: float, *, heedless: bool = False) -> Validator:
    """Refuses what has a label `slow`, after processor time with looks at the clock of the review, if not heedless."""

    def validate(request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
        if "slow" not in ((request.object or {})["metadata"].get("labels") or {}):
            return ()
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            if not heedless:
                look(facts.expired)
        return [violation()]

    return validate


def rule(
    decisions: Any = None,
    *,
    name: str = "tidy",
    action: Action = "deny",
    policy: FailurePolicy = "Fail",
    group: str = "things",
    phases: Iterable[Phase] = ("mutate", "validate"),
    namespaces: LabelSelector = EVERYTHING,
) -> Rule:
    """A rule for everything. decisions: has a function for each phase, or is that which validates."""
    decisions = decisions or Fixed()
    validate, mutate = getattr(decisions, "validate", decisions), getattr(decisions, "mutate", None)
    hooks = tuple(Hook(phase, group, ANYTHING, policy) for phase in phases if mutate or phase == "validate")
    reads = frozenset({"metadata", "spec"})
    return Rule(name, hooks, action, reads, namespaces, validate=validate, mutate=mutate)


def served(*rules: Rule) -> Served:
    """Rules with facts that need no look-up."""
    return Served(RuleSet(rules), StaticFacts(TODAY))
