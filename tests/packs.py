"""The shipped packs and their suites, and what this project's own engine says of a case."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from policies.admissionpolicy.compilation import CompiledPolicy, compile_policy
from policies.admissionpolicy.document import Document
from policies.admissionpolicy.documents import Loaded, read
from policies.admissionpolicy.finding import Finding, together
from policies.admissionpolicy.inputs import Inputs
from policies.admissionpolicy.matching import Matcher
from policies.admissionpolicy.model import Binding, ParamKind, ValidationAction
from policies.admissionpolicy.params import StaticParameters
from policies.admissionpolicy.validating import evaluate_policy
from policies.request import AdmissionRequest, GroupVersionKind, GroupVersionResource, UserInfo
from policies.suite import Case, Expectation, Suite
from policies.suite import read as read_suite

Json = dict[str, Any]
PACKS = Path(__file__).parents[1] / "policies" / "packs"
_CONFIG_MAP = ParamKind(api_version="v1", kind="ConfigMap")


@dataclass(frozen=True, slots=True)
class PackPolicy:
    """One folder: what its policy.yaml holds, decoded and read, and its suite."""

    folder: Path
    documents: tuple[Json, ...]
    loaded: Loaded
    compiled: tuple[CompiledPolicy, ...]
    suite: Suite

    @property
    def name(self) -> str:
        """The pack and the policy, as in `sunk/lock-toleration`."""
        return self.folder.relative_to(PACKS).as_posix()

    @property
    def parameters(self) -> tuple[Json, ...]:
        """The ConfigMaps."""
        return tuple(document for document in self.documents if document["kind"] == "ConfigMap")


@cache
def shipped() -> tuple[PackPolicy, ...]:
    """All policies of all packs, by name."""
    return tuple(_read(path.parent) for path in sorted(PACKS.glob("*/*/policy.yaml")))


def cases() -> list[tuple[PackPolicy, Case]]:
    """Every case of every suite."""
    return [(policy, case) for policy in shipped() for case in policy.suite.cases]


def parameters(policy: PackPolicy, case: Case) -> list[Json]:
    """The ConfigMaps as the case wants them."""
    found = copy.deepcopy(list(policy.parameters))
    for config_map in found:
        config_map["data"] = {**config_map.get("data", {}), **case.params.get(config_map["metadata"]["name"], {})}
    return found


def judged(policy: PackPolicy, case: Case) -> Expectation:
    """What the policies of a folder say of a case, by this project's engine."""
    findings = result(policy, case)

    def said(action: ValidationAction) -> tuple[str, ...]:
        return tuple(finding.message for finding in findings if action in finding.actions)

    denied = said("Deny")
    return Expectation(
        verdict="denied" if denied else "allowed", messages=denied, warnings=said("Warn"), audit=said("Audit")
    )


def result(policy: PackPolicy, case: Case) -> tuple[Finding, ...]:
    """All findings of a case, those that nothing follows from included."""
    inputs = inputs_of(case)
    given = StaticParameters(parameters(policy, case), {_CONFIG_MAP: "Namespaced"})
    parts = [
        evaluate_policy(compiled, _bindings(policy, compiled, case), given, inputs) for compiled in policy.compiled
    ]
    whole = together(parts)
    return (*whole.findings, *whole.ignored)


def inputs_of(case: Case) -> Inputs:
    """A case as the engine takes it."""
    request = request_of(case)
    kind = {"group": request.kind.group, "version": request.kind.version, "kind": request.kind.kind}
    resource = {"group": kind["group"], "version": kind["version"], "resource": request.resource.resource}
    return Inputs(
        request={
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "name": request.name,
            "namespace": request.namespace,
            "operation": request.operation,
            "userInfo": {"username": request.user_info.username, "groups": list(request.user_info.groups)},
        },
        object=request.object,
        old_object=request.old_object,
        namespace={"metadata": {"name": case.namespace.name, "labels": _labels(case)}} if case.namespace.name else None,
    )


def request_of(case: Case) -> AdmissionRequest:
    """A case as a request. The plural of a kind is regular for all kinds that the packs are about."""
    obj, old = located(case, case.object), located(case, case.old_object)
    shown = obj or old or {}
    group, _, version = shown["apiVersion"].rpartition("/")
    return AdmissionRequest(
        uid="",
        kind=GroupVersionKind(group, version, shown["kind"]),
        resource=GroupVersionResource(group, version, f"{shown['kind'].lower()}s"),
        name=shown["metadata"].get("name", ""),
        namespace=case.namespace.name,
        operation=case.operation,
        user_info=UserInfo(username=case.user.name, groups=(*case.user.groups, "system:authenticated")),
        object=obj,
        old_object=old,
    )


def located(case: Case, obj: Any) -> Json | None:
    """An object of a case in the case's namespace."""
    if obj is None:
        return None
    place = {"namespace": case.namespace.name} if case.namespace.name else {}
    return {**obj, "metadata": {**obj["metadata"], **place}}


def _labels(case: Case) -> dict[str, str]:
    return {"kubernetes.io/metadata.name": case.namespace.name, **case.namespace.labels}


def _bindings(policy: PackPolicy, compiled: CompiledPolicy, case: Case) -> list[Binding]:
    """The bindings that match; none where the policy itself does not."""
    request = request_of(case)
    if not Matcher(compiled.policy.match_constraints).matches(request, lambda _: _labels(case)):
        return []
    bindings = [each for each in policy.loaded.bindings if each.policy_name == compiled.policy.name]
    return [
        each
        for each in bindings
        if each.match_resources is None or Matcher(each.match_resources).matches(request, lambda _: _labels(case))
    ]


def _read(folder: Path) -> PackPolicy:
    documents = tuple(yaml.safe_load_all((folder / "policy.yaml").read_text(encoding="utf-8")))
    loaded = read(Document(value=each, name=str(folder), places=lambda _: (1, 1)) for each in documents)
    return PackPolicy(
        folder=folder,
        documents=documents,
        loaded=loaded,
        compiled=tuple(map(compile_policy, loaded.policies)),
        suite=read_suite(yaml.safe_load((folder / "suite.yaml").read_text(encoding="utf-8"))),
    )
