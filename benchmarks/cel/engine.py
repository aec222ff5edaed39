"""How the benchmarks use this project's engine. If its interface changes, only this module changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from policies.cel import types
from policies.cel.kubernetes import admission
from policies.cel.program import Composition, Program, compile_expression

_ENVIRONMENT = admission()


class Compiled(NamedTuple):
    """A validation and the variables that it may use."""

    program: Program
    composition: Composition


def compile(expression: str, variables: Mapping[str, str]) -> Compiled:  # noqa: A001 (what it is)
    """Compile a validation after its variables."""
    composition = Composition(_ENVIRONMENT)
    for name, text in variables.items():
        composition = composition.declare(name, text)
    return Compiled(compile_expression(expression, composition.environment, types.BOOL), composition)


def decode(pod: bytes) -> Any:
    """The object of a request, from its bytes."""
    return msgspec.json.decode(pod)


def activation(pod: Any) -> dict[str, Any]:
    """The variables that a request to create the Pod gives to expressions."""
    resource = {"group": "", "version": "v1", "resource": "pods"}
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    user = {"username": "alice", "groups": ["developers", "system:authenticated"]}
    request = {
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": "embeddings-0",
        "namespace": "inference",
        "operation": "CREATE",
        "userInfo": user,
        "dryRun": False,
    }
    namespace = {"metadata": {"name": "inference"}}
    return {"object": pod, "oldObject": None, "params": None, "request": request, "namespaceObject": namespace}


def evaluate(compiled: Compiled, names: Mapping[str, Any]) -> bool:
    """The verdict, with fresh variables and cost counted. Raises the error of an expression that fails."""
    evaluation = compiled.program.evaluate(compiled.composition.bind(names))
    if evaluation.error is not None:
        raise evaluation.error
    return evaluation.value is True
