"""Compiled policies, bindings and inputs for the tests of their evaluation, from a few fields each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.builders import TODAY
from support.cel.answers import Table

from policies.admissionpolicy.documents import reader
from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.evaluation.compilation import CompiledPolicy, compile_policy
from policies.admissionpolicy.evaluation.inputs import Inputs, StaticParameters
from policies.admissionpolicy.model import (
    Binding,
    Expression,
    MatchResources,
    MutationExpression,
    Origin,
    ParamKind,
    Policy,
)
from policies.engine.facts import StaticFacts
from policies.engine.request import JsonObject

Json = dict[str, Any]

ORIGIN = Origin(file="policy.yaml", line=1)
CONFIG_MAPS = ParamKind(api_version="v1", kind="ConfigMap")
CLASSES = ParamKind(api_version="scheduling.k8s.io/v1", kind="PriorityClass")
RULE = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
OBJECT: Json = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "x", "namespace": "team"},
    "data": {"a": "1"},
}
REQUEST: Json = {
    "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
    "resource": {"group": "", "version": "v1", "resource": "configmaps"},
    "name": "x",
    "namespace": "team",
    "operation": "CREATE",
    "userInfo": {"username": "alice"},
}


def validating(*validations: str | Json, **spec: Any) -> CompiledPolicy:
    """A ValidatingAdmissionPolicy `p`; a validation is an expression, or all its fields."""
    given = [{"expression": each} if isinstance(each, str) else each for each in validations]
    whole = {"matchConstraints": {"resourceRules": [RULE]}, **({"validations": given} if given else {}), **spec}
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"}
    document = {**head, "metadata": {"name": "p"}, "spec": whole}
    loaded = reader.read([Document(value=document, name="policy.yaml", places=lambda _: (1, 1))])
    assert loaded.policies, [problem.text for problem in loaded.errors]
    return compile_policy(loaded.policies[0])


def mutating(*expressions: str, name: str = "p", **fields: Any) -> CompiledPolicy:
    """A MutatingAdmissionPolicy, even one that the API server would refuse; `[` begins a JSON patch."""
    mutations = tuple(
        MutationExpression(
            patch_type="JSONPatch" if text.startswith("[") else "ApplyConfiguration",
            expression=Expression(text=text, path=f"spec.mutations[{index}]"),
        )
        for index, text in enumerate(expressions)
    )
    return compile_policy(policy("MutatingAdmissionPolicy", name=name, mutations=mutations, **fields))


def policy(kind: Any = "ValidatingAdmissionPolicy", **fields: Any) -> Policy:
    """A policy as a value, without validation."""
    given = {"name": "p", "reinvocation_policy": "Never" if kind.startswith("Mutating") else "", **fields}
    return Policy(kind=kind, match_constraints=MatchResources(), origin=ORIGIN, **given)


def binding(
    *actions: Any, name: str = "b", param_ref: Any = None, kind: Any = "ValidatingAdmissionPolicyBinding"
) -> Binding:
    """A binding of the policy `p` with these actions, Deny by default."""
    chosen = frozenset(actions or ("Deny",))
    return Binding(kind=kind, name=name, policy_name="p", param_ref=param_ref, validation_actions=chosen, origin=ORIGIN)


class GivenFacts(StaticFacts, frozen=True, kw_only=True):
    """Facts with a whole Namespace, made when it is read."""

    whole: Callable[[], JsonObject] | None = None

    def namespace(self, name: str) -> JsonObject:
        """The Namespace given."""
        return super().namespace(name) if self.whole is None else self.whole()


def inputs(*, request: Json | None = None, obj: Json | None = OBJECT, old: Json | None = None, **facts: Any) -> Inputs:
    """A request to create OBJECT, which may differ from REQUEST; authorization checks have no answers."""
    given = GivenFacts(TODAY, **{"decisions": Table({}), **facts})
    return Inputs(request={**REQUEST, **(request or {})}, object=obj, old_object=old, facts=given)


def config_map(name: str, namespace: str = "team", labels: Json | None = None, **data: str) -> Json:
    """A parameter object."""
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def parameters(*objects: Json) -> StaticParameters:
    """Parameters in a cluster that knows ConfigMaps and PriorityClasses."""
    return StaticParameters(objects, {CONFIG_MAPS: "Namespaced", CLASSES: "Cluster"})
