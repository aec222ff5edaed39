"""Our engine's answer to a case, with the inputs brought into the shape that the API server gives them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from policies.cel import types
from policies.cel.library.authorizer import User, authorizer, request_resource
from policies.cel.cases import AUTHORIZER, BUDGET, COMPILE, EVAL, Case, Outcome, encode
from policies.cel.cost import POLICY_LIMIT
from policies.cel.kubernetes import admission
from policies.cel.patchtypes import JSON_PATCH, OBJECT
from policies.cel.program import Composition, compile_expression
from policies.cel.syntax.source import CompileError
from policies.cel.types import Type
from policies.cel.values import type_of

RESULTS: Mapping[str, Type | None] = {
    "any": None,
    "bool": types.BOOL,
    "jsonpatch": types.list_of(JSON_PATCH),
    "applyconfig": OBJECT,
}
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


def ours(case: Case) -> Outcome:
    """What our engine makes of a case."""
    plain = _composition(case.variables)
    patches = admission(patch_types=True).with_fields("kubernetes.variables", _fields(plain))
    composition = Composition(patches, plain.programs) if case.mode in {"jsonpatch", "applyconfig"} else plain
    try:
        program = compile_expression(case.expression, composition.environment, RESULTS[case.mode])
    except CompileError as error:
        return Outcome(stage=COMPILE, error=error.reference())
    names = composition.bind(activation(case.inputs))
    evaluation = program.evaluate(names)
    cost = evaluation.cost + names["variables"].cost
    if cost > POLICY_LIMIT:
        return Outcome(stage=BUDGET, error=OUT_OF_BUDGET, cost=POLICY_LIMIT + 1)
    if evaluation.error is not None:
        return Outcome(stage=EVAL, error=str(evaluation.error), cost=cost)
    return Outcome(value=encode(evaluation.value), type=type_of(evaluation.value).name, cost=cost)


@lru_cache(maxsize=64)
def _composition(variables: tuple[tuple[str, str], ...]) -> Composition:
    composition = Composition(admission())
    for name, expression in variables:
        composition = composition.declare(name, expression)
    return composition


def _fields(composition: Composition) -> Mapping[str, Type]:
    return composition.environment.structs["kubernetes.variables"]


def activation(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of an evaluation, from the inputs of a case."""
    request = inputs.get("request") or {}
    info = request.get("userInfo") or {}
    extra = tuple((key, tuple(values)) for key, values in (info.get("extra") or {}).items())
    user = User(info.get("username", ""), info.get("uid", ""), tuple(info.get("groups") or ()), extra)
    resource = request.get("resource") or {}
    return {
        "object": inputs.get("object"),
        "oldObject": inputs.get("oldObject"),
        "params": inputs.get("params"),
        "namespaceObject": _namespace(inputs.get("namespaceObject")),
        "request": _request(request),
        "authorizer": authorizer(user, AUTHORIZER),
        "authorizer.requestResource": request_resource(
            user,
            AUTHORIZER,
            group=resource.get("group", ""),
            resource=resource.get("resource", ""),
            subresource=request.get("subResource", ""),
            namespace=request.get("namespace", ""),
            name=request.get("name", ""),
        ),
    }


def _request(request: Mapping[str, Any]) -> dict[str, Any]:
    """An AdmissionRequest as Go writes it: what has no `omitempty` is always there, what has it only when not empty."""
    kind, resource = (
        dict.fromkeys(("group", "version", "kind"), ""),
        dict.fromkeys(("group", "version", "resource"), ""),
    )
    return {
        "uid": request.get("uid", ""),
        "kind": kind | (request.get("kind") or {}),
        "resource": resource | (request.get("resource") or {}),
        **({"requestKind": kind | request["requestKind"]} if request.get("requestKind") else {}),
        **({"requestResource": resource | request["requestResource"]} if request.get("requestResource") else {}),
        **_present(request, ("subResource", "requestSubResource", "name", "namespace")),
        "operation": request.get("operation", ""),
        "userInfo": _present(request.get("userInfo") or {}, ("username", "uid", "groups", "extra")),
        "object": None,
        "oldObject": None,
        **({"dryRun": request["dryRun"]} if request.get("dryRun") is not None else {}),
        "options": request.get("options"),
    }


_METADATA = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "annotations",
    "finalizers",
)


def _namespace(namespace: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if namespace is None:
        return None
    given = namespace.get("metadata") or {}
    metadata = _present(given, _METADATA)
    if given.get("deletionGracePeriodSeconds") is not None:
        metadata["deletionGracePeriodSeconds"] = given["deletionGracePeriodSeconds"]
    return {
        "metadata": metadata,
        "spec": _present(namespace.get("spec") or {}, ("finalizers",)),
        "status": _present(namespace.get("status") or {}, ("phase", "conditions")),
    }


def _present(given: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: given[name] for name in names if given.get(name)}
