"""What validating policies say of the cases of a suite: each as the request that kube-apiserver would make of it.

The objects of a case are taken as they are written: the defaults that the API server fills in are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Any, NamedTuple

from policies.admissionpolicy.bound import BoundPolicy, inputs
from policies.admissionpolicy.compilation import CompiledPolicy, compile_policy
from policies.admissionpolicy.documents import Loaded
from policies.admissionpolicy.finding import Finding, together
from policies.admissionpolicy.matching import is_seen
from policies.admissionpolicy.model import ParamKind, ValidationAction
from policies.admissionpolicy.params import KindScope, StaticParameters
from policies.admissionpolicy.validating import evaluate_policy
from policies.facts import NAME_LABEL, StaticFacts
from policies.request import AdmissionRequest, GroupVersionKind, GroupVersionResource, JsonObject, UserInfo
from policies.suite import Case, Expectation

CONFIG_MAP = ParamKind(api_version="v1", kind="ConfigMap")


class Target(NamedTuple):
    """What the API server calls the objects of a kind, and where they are."""

    resource: str
    scope: KindScope


Targets = Callable[[str, str], Target]
"""The target of a group and kind."""


def plain(group: str, kind: str) -> Target:  # noqa: ARG001
    """The target of a kind that is in namespaces and has a regular plural."""
    return Target(f"{kind.lower()}s", "Namespaced")


class SuiteRun:
    """Validating policies with their bindings and parameters, compiled once for all cases."""

    def __init__(self, loaded: Loaded, parameters: StaticParameters, targets: Targets = plain) -> None:
        self._policies = [
            BoundPolicy(compile_policy(policy), [each for each in loaded.bindings if each.policy_name == policy.name])
            for policy in loaded.policies
        ]
        self._objects = parameters.objects
        self._scopes = {CONFIG_MAP: "Namespaced", **parameters.scopes}
        self._targets = targets

    @property
    def compiled(self) -> tuple[CompiledPolicy, ...]:
        """The policies, in the order of their documents."""
        return tuple(each.compiled for each in self._policies)

    def outcome(self, case: Case) -> Expectation:
        """What the policies say of a case. What they ask of the authorizer has no answer, but an error."""
        findings = self.findings(case)

        def said(action: ValidationAction) -> tuple[str, ...]:
            return tuple(finding.message for finding in findings if action in finding.actions)

        denied = said("Deny")
        return Expectation(
            verdict="denied" if denied else "allowed", messages=denied, warnings=said("Warn"), audit=said("Audit")
        )

    def findings(self, case: Case) -> tuple[Finding, ...]:
        """All findings of a case, those that nothing follows from included."""
        request = request_of(case, self._targets)
        if not is_seen(request):
            return ()
        facts = facts_of(case, request)
        seen = inputs(request, facts)
        given = StaticParameters(with_data(self._objects, case.params), self._scopes)
        whole = together(
            evaluate_policy(each.compiled, bindings, given, seen)
            for each in self._policies
            if (bindings := each.matching(request, facts.namespace_labels))
        )
        return (*whole.findings, *whole.ignored)


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


def facts_of(case: Case, request: AdmissionRequest) -> StaticFacts:
    """What is known of the cluster: the labels of the request's Namespace. One that is deleted is in itself."""
    labels: Mapping[str, str] = case.namespace.labels
    if request.kind.group_kind == ("", "Namespace"):
        labels = (request.old_object or request.object or {})["metadata"].get("labels") or {}
    name = request.namespace
    return StaticFacts(date.min, {name: {NAME_LABEL: name, **labels}} if name else {})


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
