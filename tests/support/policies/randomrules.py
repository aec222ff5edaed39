"""Random sets of validating policies with all that a policy may have, over the objects of `celexpressions`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import Any

from support.builders import WORKLOADS
from support.cel.celexpressions import EXPRESSIONS
from support.cel.celrun import compiled

from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.reader import read
from policies.admissionpolicy.evaluation.inputs import StaticParameters
from policies.admissionpolicy.model import ParamKind
from policies.admissionpolicy.rules import policyrule
from policies.cel.types import BOOL
from policies.engine.rule import RuleSet

Json = dict[str, Any]

_PARAMETERS = StaticParameters(
    [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}
        for name, data in (("a", {"image": "r/a"}), ("b", {"image": "q"}), ("c", {}))
    ],
    {ParamKind(api_version="v1", kind="ConfigMap"): "Namespaced"},
)
_CONDITIONS = (
    "request.userInfo.username != 'bob'",
    "object.spec.paused == true",
    "has(object.spec.replicas)",
    "object.spec.replicas > 0",
    "authorizer.group('').resource('pods').check('get').allowed() || true",
    "namespaceObject == null",
)
_VALIDATIONS = (
    *("true", "request.operation == 'CREATE'", "namespaceObject.metadata.name != 'a'", "oldObject == null"),
    *(
        "authorizer.group('').resource('pods').check('delete').allowed()",
        "request.namespace == object.metadata.namespace",
    ),
    "object.spec.containers.all(c, object.spec.containers.all(d, c == d || c.image != d.image))",
)
_OF_PARAMS = (
    "params == null || !has(params.data) || params.data.?image.orValue('') != 'q'",
    "params.data.image != 'q'",
)


@cache
def _pools() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Boolean expressions, and values of any type."""
    booleans = tuple(text for text in EXPRESSIONS if compiled(text).type == BOOL)
    return (*booleans, *booleans, *_VALIDATIONS), EXPRESSIONS


def rule_set(seed: int, count: int = 8) -> RuleSet:
    """Policies with bindings, some of them with the same variables and conditions."""
    chance = random.Random(seed)  # noqa: S311 - no secrets are made here
    documents = [document for number in range(count) for document in _documents(f"p{number}", chance)]
    loaded = read([Document(value=value, name="random.yaml", places=lambda _: (1, 1)) for value in documents])
    assert loaded.policies, [problem.text for problem in loaded.errors]
    return RuleSet(policyrule.validating_rules(loaded.policies, loaded.bindings, _PARAMETERS, WORKLOADS))


def _documents(name: str, chance: random.Random) -> Iterator[Json]:
    booleans, values = _pools()
    variables = {f"v{number}": chance.choice(values) for number in range(chance.choice((0, 0, 1, 2)))}
    if "v1" in variables and chance.random() < 0.5:
        variables["v1"] = "[variables.v0, variables.v0]"
    with_params = chance.random() < 0.3
    pool = [*booleans, *(_OF_PARAMS * 5 if with_params else ())]
    pool += [text for known in variables for text in _of_variable(known)] * 5
    spec: Json = {
        "failurePolicy": chance.choice(("Fail", "Ignore")),
        "matchConstraints": {"resourceRules": [_rule(chance)], **_selector(chance)},
        "variables": [{"name": known, "expression": text} for known, text in variables.items()],
        "validations": [_validation(chance, pool) for _ in range(chance.choice((1, 2, 3)))],
    }
    if chance.random() < 0.4:
        texts = chance.sample(_CONDITIONS, chance.choice((1, 1, 2)))
        spec["matchConditions"] = [{"name": f"c{index}", "expression": text} for index, text in enumerate(texts)]
    if chance.random() < 0.15:
        spec["auditAnnotations"] = [{"key": "name", "valueExpression": "object.metadata.name"}]
    if with_params:
        spec["paramKind"] = {"apiVersion": "v1", "kind": "ConfigMap"}
    derive = {"cks-admission.dev/derive": chance.choice(("true", "false"))}
    yield _document("ValidatingAdmissionPolicy", name, spec, derive)
    for number in range(chance.choice((1, 1, 2))):
        binding: Json = {"policyName": name, "validationActions": chance.choice((["Deny"], ["Warn"], ["Audit"]))}
        if with_params:
            binding["paramRef"] = chance.choice(
                (
                    {"name": chance.choice("abcd"), "parameterNotFoundAction": chance.choice(("Allow", "Deny"))},
                    {"selector": {}, "parameterNotFoundAction": "Deny"},
                )
            )
        yield _document("ValidatingAdmissionPolicyBinding", f"{name}-{number}", binding, {})


def _of_variable(name: str) -> tuple[str, ...]:
    return (
        f"variables.{name} == variables.{name}",
        f"object.spec.paused == true || variables.{name} != null",
        f"object.spec.containers.all(c, has(c.image) || variables.{name} != 1)",
        f"type(variables.{name}) == string ? dyn(variables.{name}) != 'a' : true",
    )


def _validation(chance: random.Random, pool: list[str]) -> Json:
    # Most validations hold for most objects, so that there are requests of which all policies have nothing to say.
    text = chance.choice(pool)
    if chance.random() < 0.5:
        text = f"object.?spec.?name.orValue('') != 'b' || ({text})"
    message = {"messageExpression": "'no ' + string(object.metadata.name)"} if chance.random() < 0.2 else {}
    return {"expression": text, **message}


def _rule(chance: random.Random) -> Json:
    operations = chance.choice((["*"], ["CREATE"], ["CREATE", "UPDATE"]))
    resources = chance.choice((["pods"], ["pods"], ["*"], ["pods", "deployments"]))
    names = {"resourceNames": ["a", "x"]} if chance.random() < 0.1 else {}
    return {"apiGroups": ["*"], "apiVersions": ["*"], "operations": operations, "resources": resources, **names}


def _selector(chance: random.Random) -> Json:
    draw = chance.random()
    if draw < 0.1:
        return {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
    if draw < 0.2:
        return {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]}}
    return {}


def _document(kind: str, name: str, spec: Json, annotations: Json) -> Json:
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
