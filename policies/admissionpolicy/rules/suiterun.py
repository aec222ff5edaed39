"""Runs policies on the cases of a suite, each as the request that kube-apiserver would make of it.

Objects are read as the API server reads them: quantities are texts, and defaults are set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Any, NamedTuple, get_args

from msgspec.structs import replace

from policies.admissionpolicy.builtin.defaults import kind_of, received
from policies.admissionpolicy.documents.reader import Loaded
from policies.admissionpolicy.evaluation.compilation import compile_policy
from policies.admissionpolicy.evaluation.inputs import KindScope, StaticParameters, inputs_of
from policies.admissionpolicy.evaluation.validator import Finding, combined, evaluate_policy
from policies.admissionpolicy.model import Binding, ParamKind, ValidationAction
from policies.admissionpolicy.mutation.dispatcher import Mutated
from policies.admissionpolicy.rules.policyrule import (
    BoundPolicy,
    MutatingPolicies,
    PolicyRule,
    Schemas,
    Subject,
    SubjectCache,
    is_seen,
)
from policies.admissionpolicy.schema import known
from policies.cel.library.authorizer import Decisions
from policies.engine.facts import NAME_LABEL, StaticFacts
from policies.engine.request import AdmissionRequest, GroupVersionKind, GroupVersionResource, JsonObject, UserInfo
from policies.engine.violation import TEXT_LENGTH, Violation, describe, warnings
from policies.kubernetes.release import NEWEST, Release
from policies.objects.workload import BUILT_IN, table
from policies.suite import Case, Expectation

CONFIG_MAP = ParamKind(api_version="v1", kind="ConfigMap")


class KindTarget(NamedTuple):
    """The resource name and the scope of a kind."""

    resource: str
    scope: KindScope


Targets = Callable[[str, str], KindTarget]
"""The target of a group and kind."""


class _CaseReview(NamedTuple):
    """A case as a request with its facts, and as its mutating policies change it."""

    request: AdmissionRequest
    changed: AdmissionRequest
    facts: StaticFacts
    parameters: StaticParameters
    mutated: Mutated


Texts = Mapping[ValidationAction, tuple[str, ...]]
_WORKLOADS = table(BUILT_IN)


def plain(group: str, kind: str) -> KindTarget:  # noqa: ARG001
    """The target of a namespaced kind with a regular plural."""
    return KindTarget(f"{kind.lower()}s", "Namespaced")


class SuiteRun:
    """Policies with their bindings and parameters, compiled once for all cases.

    compiled: the policies, in the order of their documents. targets: the resource names and scopes of kinds. schemas:
    how objects are read and merge. decisions: answers to authorization checks; if None, checks fail. release: the API
    server's.
    """

    def __init__(
        self,
        loaded: Loaded,
        parameters: StaticParameters,
        targets: Targets = plain,
        *,
        schemas: Schemas = known,
        decisions: Decisions | None = None,
        release: Release = NEWEST,
    ) -> None:
        bindings: dict[tuple[str, str], list[Binding]] = {}
        for binding in loaded.bindings:
            bindings.setdefault((binding.kind.removesuffix("Binding"), binding.policy_name), []).append(binding)
        policies = [
            BoundPolicy(compile_policy(policy, release), bindings.get((policy.kind, policy.name), ()))
            for policy in loaded.policies
        ]
        self.compiled = tuple(bound.compiled for bound in policies)
        self._validating, self._mutating = (
            [bound for bound in policies if bound.policy.kind == kind]
            for kind in ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
        )
        self._objects = parameters.objects
        self._scopes = {CONFIG_MAP: "Namespaced", **parameters.scopes}
        self._targets = targets
        self._schemas = schemas
        self._decisions = decisions

    def received(self, case: Case) -> Case:
        """A case with its objects, and the object that it expects, as the API server reads them."""
        obj, old = self._received(case.object), self._received(case.old_object)
        patched = self._received(case.expect.patched)
        expect = replace(case.expect, patched=None if patched == obj else patched)
        return replace(case, object=obj, old_object=old, expect=expect)

    def _received(self, obj: Mapping[str, Any] | None) -> JsonObject | None:
        if obj is None:
            return None
        schema = self._schemas(kind_of(obj))
        return dict(obj) if schema is None else received(dict(obj), schema)

    def outcome(self, case: Case) -> Expectation:
        """The outcome of a case, in which validating policies judge the object after the mutating policies."""
        review = self._reviewed(case)
        mutated = review.mutated
        if mutated.denial is not None:
            refusals = tuple(finding.message for finding in mutated.result.findings if finding.denies)
            return Expectation(verdict="denied", messages=refusals)
        if case.derived:
            texts = self._derived(review)
        else:
            findings, actions = self._findings(review), get_args(ValidationAction)
            texts = {action: tuple(one.message for one in findings if action in one.actions) for action in actions}
        # The object has no namespace, unless the case's own object has one.
        patched = None
        if not texts["Deny"] and mutated.object is not None and mutated.object != review.request.object:
            metadata = {key: value for key, value in mutated.object["metadata"].items() if key != "namespace"}
            written = (case.object or {}).get("metadata") or {}
            place = {"namespace": written["namespace"]} if "namespace" in written else {}
            patched = {**mutated.object, "metadata": {**metadata, **place}}
        return Expectation(
            verdict="denied" if texts["Deny"] else "allowed",
            messages=texts["Deny"],
            warnings=texts["Warn"],
            audit=texts["Audit"],
            patched=patched,
        )

    def findings(self, case: Case) -> tuple[Finding, ...]:
        """All findings of the validating policies, including ignored errors."""
        return self._findings(self._reviewed(case))

    def _reviewed(self, case: Case) -> _CaseReview:
        request = request_of(self.received(case), self._targets)
        facts = facts_of(case, request, self._decisions)
        given = StaticParameters(with_data(self._objects, case.params), self._scopes)
        policies = self._mutating if is_seen(request) else ()
        mutated, _ = MutatingPolicies(policies, given, self._schemas).mutated(request, facts)
        return _CaseReview(request, replace(request, object=mutated.object), facts, given, mutated)

    def _findings(self, review: _CaseReview) -> tuple[Finding, ...]:
        if not is_seen(review.request):
            return ()
        inputs = inputs_of(review.changed, review.facts)
        subject = Subject(review.changed, review.facts, {})
        result = combined(
            evaluate_policy(policy.compiled, bindings, review.parameters, inputs)
            for policy in self._validating
            if (bindings := policy.matching(subject))
        )
        return (*result.findings, *result.ignored)

    def _derived(self, review: _CaseReview) -> Texts:
        """The findings of the service, with their places: in a refusal below the text, else before it."""
        subjects = SubjectCache(_WORKLOADS)
        refusals: dict[str, list[Violation]] = {}
        others: dict[str, list[Violation]] = {"warn": [], "audit": []}
        for policy in self._validating:
            rule = PolicyRule(policy, review.parameters, subjects)
            for violation in rule.validate(review.changed, review.facts):
                if not isinstance(violation, Violation):
                    continue
                if violation.verdict == "deny":
                    refusals.setdefault(violation.summary, []).append(violation)
                else:
                    others[violation.verdict].append(violation)
        warned, audited = (
            tuple(text.removeprefix(f"{one.rule}: ") for text, one in warnings(others[verdict], TEXT_LENGTH).items())
            for verdict in ("warn", "audit")
        )
        refused = tuple(describe(alike).partition(" denied request: ")[2] for alike in refusals.values())
        return {"Deny": refused, "Warn": warned, "Audit": audited}


def request_of(case: Case, targets: Targets = plain) -> AdmissionRequest:
    """A case as a request. Cluster-scoped kinds have no namespace, whatever the case's namespace is."""
    shown = case.object or case.old_object or {}
    group, _, version = shown["apiVersion"].rpartition("/")
    kind, name = shown["kind"], str(shown["metadata"].get("name") or "")
    resource, scope = targets(group, kind)
    inside = case.namespace.name if scope == "Namespaced" else ""
    place = {"namespace": inside} if inside else {}
    obj, old = (
        None if one is None else {**one, "metadata": {**one["metadata"], **place}}
        for one in (case.object, case.old_object)
    )
    return AdmissionRequest(
        uid="",
        kind=GroupVersionKind(group, version, kind),
        resource=GroupVersionResource(group, version, resource),
        name=name,
        namespace=name if (group, kind) == ("", "Namespace") else inside,
        operation=case.operation,
        user_info=UserInfo(username=case.user.name, groups=(*case.user.groups, "system:authenticated")),
        object=obj,
        old_object=old,
    )


def facts_of(case: Case, request: AdmissionRequest, decisions: Decisions | None = None) -> StaticFacts:
    """The facts of a case: the labels of the request's Namespace. For a Namespace, these are its own labels."""
    labels: Mapping[str, str] = case.namespace.labels
    if request.kind.group_kind == ("", "Namespace"):
        labels = (request.old_object or request.object or {})["metadata"].get("labels") or {}
    name = request.namespace
    return StaticFacts(date.min, {name: {NAME_LABEL: name, **labels}} if name else {}, decisions=decisions)


def with_data(objects: Iterable[Mapping[str, Any]], params: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The objects, with additional data in ConfigMaps. `params`: the data, by the name of the ConfigMap."""
    return [
        {**obj, "data": {**(obj.get("data") or {}), **params[obj["metadata"]["name"]]}}
        if is_config_map(obj) and obj["metadata"].get("name") in params
        else obj
        for obj in objects
    ]


def is_config_map(obj: Mapping[str, Any]) -> bool:
    """Whether an object is a ConfigMap, so that the params of a case can extend it."""
    return ParamKind(api_version=obj["apiVersion"], kind=obj["kind"]) == CONFIG_MAP
