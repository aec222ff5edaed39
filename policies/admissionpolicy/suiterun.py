"""What policies say of the cases of a suite: each as the request that kube-apiserver would make of it.

The objects of a case are taken as they are written: the defaults that the API server fills in are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Any, NamedTuple, get_args

from msgspec.structs import replace

from policies.admissionpolicy.bound import BoundPolicy
from policies.admissionpolicy.compilation import CompiledPolicy, compile_policy
from policies.admissionpolicy.documents import Loaded
from policies.admissionpolicy.finding import Finding, combined
from policies.admissionpolicy.inputs import inputs_of
from policies.admissionpolicy.matching import is_seen
from policies.admissionpolicy.model import Binding, ParamKind, Policy, PolicyKind, ValidationAction
from policies.admissionpolicy.mutating import Mutated
from policies.admissionpolicy.mutatingrule import MutatingPolicies, Schemas
from policies.admissionpolicy.params import KindScope, StaticParameters
from policies.admissionpolicy.policyrule import PolicyRule
from policies.admissionpolicy.schema import unknown
from policies.admissionpolicy.subject import SubjectCache
from policies.admissionpolicy.validating import evaluate_policy
from policies.cel.library.authorizer import Decisions
from policies.engine.facts import NAME_LABEL, StaticFacts
from policies.engine.request import AdmissionRequest, GroupVersionKind, GroupVersionResource, JsonObject, UserInfo
from policies.engine.violation import Violation, describe, one_line
from policies.objects.workload import BUILT_IN, table
from policies.suite import Case, Expectation

CONFIG_MAP = ParamKind(api_version="v1", kind="ConfigMap")


class Target(NamedTuple):
    """What the API server calls the objects of a kind, and where they are."""

    resource: str
    scope: KindScope


Targets = Callable[[str, str], Target]
"""The target of a group and kind."""


class _Asked(NamedTuple):
    """A case as a request, with what is known, and what the mutating policies made of it."""

    request: AdmissionRequest
    facts: StaticFacts
    parameters: StaticParameters
    mutated: Mutated

    @property
    def changed(self) -> AdmissionRequest:
        """The request as the validating policies see it."""
        return replace(self.request, object=self.mutated.object)


Said = Mapping[ValidationAction, tuple[str, ...]]
"""The texts that lead to each action."""
_WORKLOADS = table(BUILT_IN)


def plain(group: str, kind: str) -> Target:  # noqa: ARG001
    """The target of a kind that is in namespaces and has a regular plural."""
    return Target(f"{kind.lower()}s", "Namespaced")


class SuiteRun:
    """Policies with their bindings and parameters, compiled once for all cases.

    targets: what kinds are called. schemas: how objects of a kind merge. decisions: who answers authorization checks;
    with None they come back with an error.
    """

    def __init__(
        self,
        loaded: Loaded,
        parameters: StaticParameters,
        targets: Targets = plain,
        *,
        schemas: Schemas = unknown,
        decisions: Decisions | None = None,
    ) -> None:
        self._policies = [
            BoundPolicy(compile_policy(policy), [each for each in loaded.bindings if _binds(each, policy)])
            for policy in loaded.policies
        ]
        self._objects = parameters.objects
        self._scopes = {CONFIG_MAP: "Namespaced", **parameters.scopes}
        self._targets = targets
        self._schemas = schemas
        self._decisions = decisions

    @property
    def compiled(self) -> tuple[CompiledPolicy, ...]:
        """The policies, in the order of their documents."""
        return tuple(each.compiled for each in self._policies)

    def outcome(self, case: Case) -> Expectation:
        """What the policies say: the mutating ones change a case's object, the validating ones judge what it became."""
        asked = self._asked(case)
        mutated = asked.mutated
        if mutated.denial is not None:
            refusals = tuple(each.message for each in mutated.result.findings if each.denies)
            return Expectation(verdict="denied", messages=refusals)
        said = self._derived(asked) if case.derived else self._native(asked)
        unchanged = said["Deny"] or mutated.object == asked.request.object
        return Expectation(
            verdict="denied" if said["Deny"] else "allowed",
            messages=said["Deny"],
            warnings=said["Warn"],
            audit=said["Audit"],
            patched=None if unchanged else _as_written(mutated.object, case),
        )

    def findings(self, case: Case) -> tuple[Finding, ...]:
        """All findings of the validating policies, those that nothing follows from included."""
        return self._findings(self._asked(case))

    def _asked(self, case: Case) -> _Asked:
        """A case as far as the mutating policies bring it."""
        request = request_of(case, self._targets)
        facts = facts_of(case, request, self._decisions)
        given = StaticParameters(with_data(self._objects, case.params), self._scopes)
        policies = self._of("MutatingAdmissionPolicy") if is_seen(request) else ()
        mutated, _ = MutatingPolicies(policies, given, self._schemas).mutated(request, facts)
        return _Asked(request, facts, given, mutated)

    def _native(self, asked: _Asked) -> Said:
        findings = self._findings(asked)
        actions: tuple[ValidationAction, ...] = get_args(ValidationAction)
        return {action: tuple(each.message for each in findings if action in each.actions) for action in actions}

    def _findings(self, asked: _Asked) -> tuple[Finding, ...]:
        """What kube-apiserver finds."""
        if not is_seen(asked.request):
            return ()
        seen = inputs_of(asked.changed, asked.facts)
        whole = combined(
            evaluate_policy(each.compiled, bindings, asked.parameters, seen)
            for each in self._of("ValidatingAdmissionPolicy")
            if (bindings := each.matching(asked.changed, asked.facts.namespace_labels))
        )
        return (*whole.findings, *whole.ignored)

    def _derived(self, asked: _Asked) -> Said:
        """What the service finds, in its words: below a refusal stand its places."""
        subjects = SubjectCache(_WORKLOADS)
        rules = (PolicyRule(each, asked.parameters, subjects) for each in self._of("ValidatingAdmissionPolicy"))
        said = (each for rule in rules for each in rule.validate(asked.changed, asked.facts))
        found = [each for each in said if isinstance(each, Violation)]
        refusals: dict[str, list[Violation]] = {}
        for each in found:
            if each.verdict == "deny":
                refusals.setdefault(each.summary, []).append(each)
        return {
            "Deny": tuple(map(describe, refusals.values())),
            "Warn": tuple(one_line(each.warning) for each in found if each.verdict == "warn"),
            "Audit": tuple(each.warning for each in found if each.verdict == "audit"),
        }

    def _of(self, kind: PolicyKind) -> list[BoundPolicy]:
        return [each for each in self._policies if each.policy.kind == kind]


def _binds(binding: Binding, policy: Policy) -> bool:
    return (binding.kind, binding.policy_name) == (f"{policy.kind}Binding", policy.name)


def _as_written(mutated: JsonObject | None, case: Case) -> JsonObject:
    """An object without the namespace that only the case gave it."""
    written = (case.object or {}).get("metadata") or {}
    obj: JsonObject = mutated or {}
    rest = {key: value for key, value in obj["metadata"].items() if key != "namespace"}
    place = {"namespace": written["namespace"]} if "namespace" in written else {}
    return {**obj, "metadata": {**rest, **place}}


def request_of(case: Case, targets: Targets = plain) -> AdmissionRequest:
    """A case as a request. A kind that is in no namespace is so whatever namespace the case is in."""
    shown = case.object or case.old_object or {}
    group, _, version = shown["apiVersion"].rpartition("/")
    kind, name = shown["kind"], str(shown["metadata"].get("name") or "")
    resource, scope = targets(group, kind)
    inside = case.namespace.name if scope == "Namespaced" else ""
    return AdmissionRequest(
        uid="",
        kind=GroupVersionKind(group, version, kind),
        resource=GroupVersionResource(group, version, resource),
        name=name,
        namespace=name if (group, kind) == ("", "Namespace") else inside,
        operation=case.operation,
        user_info=UserInfo(username=case.user.name, groups=(*case.user.groups, "system:authenticated")),
        object=located(case.object, inside),
        old_object=located(case.old_object, inside),
    )


def facts_of(case: Case, request: AdmissionRequest, decisions: Decisions | None = None) -> StaticFacts:
    """What is known of the cluster: the labels of the request's Namespace. One that is deleted is in itself."""
    labels: Mapping[str, str] = case.namespace.labels
    if request.kind.group_kind == ("", "Namespace"):
        labels = (request.old_object or request.object or {})["metadata"].get("labels") or {}
    name = request.namespace
    return StaticFacts(date.min, {name: {NAME_LABEL: name, **labels}} if name else {}, decisions=decisions)


def located(obj: Mapping[str, Any] | None, namespace: str) -> JsonObject | None:
    """An object in a namespace; as it is, if that has no name."""
    if obj is None:
        return None
    place = {"namespace": namespace} if namespace else {}
    return {**obj, "metadata": {**obj["metadata"], **place}}


def with_data(objects: Iterable[Mapping[str, Any]], params: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Objects, the ConfigMaps among them with further data by their names."""
    return [
        {**each, "data": {**(each.get("data") or {}), **params[each["metadata"]["name"]]}}
        if is_config_map(each) and each["metadata"].get("name") in params
        else each
        for each in objects
    ]


def is_config_map(obj: Mapping[str, Any]) -> bool:
    """Whether the params of a case may be about an object."""
    return ParamKind(api_version=obj["apiVersion"], kind=obj["kind"]) == CONFIG_MAP
