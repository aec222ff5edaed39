"""The inputs of an evaluation: one request, and everything that expressions can read about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from typing import Any

from msgspec.structs import asdict

from policies.cached import cached_property
from policies.cel.activation import QUICK, activation, shown_namespace
from policies.cel.program import NO_VARIABLES
from policies.cel.values import Value
from policies.engine.facts import Facts
from policies.engine.request import AdmissionRequest, GroupVersionKind, JsonObject

Json = Mapping[str, Any]
"""A decoded object."""

_AUTHORIZERS = ("authorizer", "authorizer.requestResource")


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """One request, and the facts of its review.

    request: an AdmissionRequest of admission.k8s.io/v1 as decoded JSON. object: null on DELETE; on CONNECT the options
    of the connection.
    """

    request: Json
    object: JsonObject | None = None
    old_object: JsonObject | None = None
    facts: Facts

    @property
    def kind(self) -> GroupVersionKind:
        """The kind of the object."""
        kind = self.request.get("kind") or {}
        return GroupVersionKind(kind.get("group", ""), kind.get("version", ""), kind.get("kind", ""))

    @property
    def request_namespace(self) -> str:
        """The namespace in the request; for a Namespace, its own name."""
        return str(self.request.get("namespace") or "")

    def names(
        self, params: Json | None, *, request: bool = True, namespace: bool = False, authorizer: bool = True
    ) -> Mapping[str, Value]:
        """The variables of expressions with these parameters. `namespaceObject` and `authorizer` are made on demand.

        request: whether an expression may read `request` or `authorizer`, which are expensive to make.
        """
        if not (request or namespace):
            return self._objects if params is None else {**self._objects, "params": params}
        if params is None and authorizer and not namespace:
            return self.shared
        names = {**self.shared, "params": params}
        if namespace:
            names["namespaceObject"] = self.namespace_object
        if not authorizer:
            for name in _AUTHORIZERS:
                del names[name]
        return names

    def spent(self, policy: str, used: float) -> None:
        """Report which part of a cost limit a policy has used."""
        if self.facts.spend is not None:
            self.facts.spend(policy, used)

    @cached_property
    def _objects(self) -> Mapping[str, Value]:
        return {
            "object": self.object,
            "oldObject": self.old_object,
            "params": None,
            "namespaceObject": None,
            "variables": NO_VARIABLES,
        }

    @cached_property
    def shared(self) -> dict[str, Value]:
        """The variables that are the same for all policies. In the API server, too, `request` has no uid here."""
        request = {**self.request, "uid": ""}
        shared = activation(request, self.facts, object=self.object, old_object=self.old_object)
        return {**shared, "variables": NO_VARIABLES}

    @cached_property
    def namespace_object(self) -> Value:
        """The request's Namespace; null for cluster-scoped objects, including Namespaces (dispatcher.go)."""
        kind = self.request.get("requestKind") or self.request.get("kind") or {}
        is_namespace = (kind.get("group", ""), kind.get("version"), kind.get("kind")) == ("", "v1", "Namespace")
        if is_namespace or not self.request_namespace:
            return None
        return shown_namespace(self.facts.namespace(self.request_namespace))


class LazyNames(dict[str, Value]):
    """The variables of expressions without parameters. What is expensive to make is made when it is read."""

    __slots__ = ("_inputs",)

    def __init__(self, inputs: Inputs) -> None:
        super().__init__(object=inputs.object, oldObject=inputs.old_object)
        self._inputs = inputs

    def __missing__(self, name: str) -> Value:
        inputs = self._inputs
        if name == "namespaceObject":
            value = inputs.namespace_object
        elif name in QUICK:
            _, *fields = name.split(".")
            value = reduce(getitem, fields, inputs.request) or reduce(getitem, fields, inputs.shared["request"])
        else:
            value = inputs.shared[name]
        self[name] = value
        return value


def inputs_of(request: AdmissionRequest, facts: Facts) -> Inputs:
    """The inputs of expressions for a request."""
    return Inputs(request=as_json(request), object=request.object, old_object=request.old_object, facts=facts)


def as_json(request: AdmissionRequest) -> dict[str, Any]:
    """The request as the JSON of its AdmissionRequest, without its objects."""
    return {
        "uid": request.uid,
        "kind": asdict(request.kind),
        "resource": asdict(request.resource),
        "subResource": request.sub_resource,
        "requestKind": asdict(request.request_kind or request.kind),
        "requestResource": asdict(request.request_resource or request.resource),
        "requestSubResource": request.request_sub_resource or request.sub_resource,
        "name": request.name,
        "namespace": request.namespace,
        "operation": request.operation,
        "userInfo": {
            "username": request.user_info.username,
            "uid": request.user_info.uid,
            "groups": list(request.user_info.groups),
            "extra": {key: list(values) for key, values in request.user_info.extra.items()},
        },
        "dryRun": request.dry_run,
        "options": request.options,
    }
