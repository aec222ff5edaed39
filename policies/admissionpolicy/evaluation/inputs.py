"""The inputs of an evaluation: one request, all that expressions can read about it, and the parameters of a binding.

Source of parameters: CollectParams in k8s.io/apiserver's pkg/admission/plugin/policy/generic/policy_dispatcher.go, and
policy_source.go for a paramKind that the cluster does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import getitem
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

from policies.admissionpolicy.model import Binding, ParamKind, Policy
from policies.cached import cached_property
from policies.cel.activation import QUICK, activation, shown_namespace
from policies.cel.program import NO_VARIABLES
from policies.cel.values import Value
from policies.engine.facts import Facts
from policies.engine.interruption import Key
from policies.engine.match import LabelSelector
from policies.engine.request import AdmissionRequest, GroupVersionKind, JsonObject
from policies.kubernetes.name import CLIENT_GROUPS

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


KindScope = Literal["Cluster", "Namespaced"]
_NOTATION = {"In": "{} in ({})", "NotIn": "{} notin ({})", "Exists": "{}", "DoesNotExist": "!{}"}


class ConfigurationError(Exception):
    """A policy or binding is misconfigured and cannot be evaluated; the text is the API server's."""


class KnownParameters(Struct, frozen=True):
    """The known parameters: the scope of their kind, None if it is not served, and the requested objects."""

    scope: KindScope | None
    objects: Sequence[Json] = ()


NOT_SERVED = KnownParameters(None)


class ParametersKey(Key[KnownParameters], Struct, frozen=True, kw_only=True):
    """The key of a named object, or of all selected ones in a namespace or everywhere; else of the kind's scope."""

    kind: ParamKind
    namespace: str = ""
    name: str = ""
    selector: LabelSelector | None = None

    def __str__(self) -> str:
        place = f" in namespace {self.namespace}" if self.namespace else ""
        if self.name:
            return f"{self.kind.kind} {self.name}{place}"
        if self.selector is None:
            return f"{self.kind.kind} of {self.kind.api_version}"
        labels = label_selector(self.selector)
        return f"every {self.kind.kind}{f' with labels {labels!r}' if labels else ''}{place}"

    @property
    def has_objects(self) -> bool:
        """Whether the key is for objects, not only for the scope."""
        return bool(self.name) or self.selector is not None

    @property
    def missing(self) -> str:
        """The message if the parameters are not known."""
        return f"{self} is not known yet"

    def without_cluster(self) -> KnownParameters:
        """The value without a cluster, where no kind is served."""
        return NOT_SERVED


def label_selector(selector: LabelSelector) -> str:
    """A selector in the syntax of kubectl's --selector; empty for one that selects everything."""
    return ",".join(
        _NOTATION[requirement.operator].format(requirement.key, ",".join(requirement.values))
        for requirement in selector.requirements
    )


def parameter_keys(policies: Iterable[Policy], bindings: Iterable[Binding]) -> frozenset[ParametersKey]:
    """The keys that policies with bindings need, so that only these are watched."""
    kinds = {(f"{policy.kind}Binding", policy.name): policy.param_kind for policy in policies}
    keys = set()
    for binding in bindings:
        kind, ref = kinds.get((binding.kind, binding.policy_name)), binding.param_ref
        if kind is not None and ref is not None:
            keys.add(ParametersKey(kind=kind, namespace=ref.namespace, name=ref.name, selector=ref.selector))
        elif kind is not None:
            keys.add(ParametersKey(kind=kind))
    return frozenset(keys)


@dataclass(frozen=True)
class StaticParameters:
    """Parameters that are all in memory, decoded and with apiVersion and kind. `scopes` has all existing kinds.

    is_final: whether they hold whatever the cluster has, so that it is not even asked.
    """

    objects: Sequence[Json] = ()
    scopes: Mapping[ParamKind, KindScope] = field(default_factory=dict)
    is_final: bool = False

    def scope(self, kind: ParamKind) -> KindScope | None:
        """The scope of a kind; None for one that does not exist."""
        return self.scopes.get(kind)

    def named(self, kind: ParamKind, namespace: str, name: str) -> Json | None:
        """The object with a name, or None. `namespace` is empty for a cluster-scoped kind."""
        return self._by_name.get((kind.api_version, kind.kind, namespace, name))

    def selected(self, kind: ParamKind, namespace: str, selector: LabelSelector) -> Sequence[Json]:
        """The objects that a selector selects, sorted by name."""
        place = (kind.api_version, kind.kind, namespace)
        objects = (obj for obj in self.objects if _place(obj) == place)
        return sorted((obj for obj in objects if selector.matches(obj["metadata"].get("labels") or {})), key=_name)

    @cached_property
    def _by_name(self) -> Mapping[tuple[Any, ...], Json]:
        """The objects by kind, namespace and name: of duplicates the first, without objects that have no valid name."""
        named = [((*_place(obj), obj["metadata"].get("name")), obj) for obj in reversed(self.objects)]
        return {key: obj for key, obj in named if all(isinstance(part, str) for part in key)}


def _place(obj: Json) -> tuple[Any, ...]:
    return obj.get("apiVersion"), obj.get("kind"), obj["metadata"].get("namespace", "")


NO_PARAMETERS = StaticParameters()


class ReviewParameters:
    """The parameters of one review: those of the cluster, and those given with the policies.

    An object of the cluster hides a given one with the same kind, namespace and name, unless what is given is final.
    All methods raise Missing and FactUnavailable.
    """

    def __init__(self, facts: Facts, given: StaticParameters) -> None:
        self.facts = facts
        self.given = given
        self._scopes: dict[ParamKind, KindScope] = {}

    def scope(self, kind: ParamKind) -> KindScope | None:
        """The scope of a kind in the cluster or, if it is unknown there, in the given objects."""
        known = self._scopes.get(kind)
        if known is None:
            is_final = self.given.is_final
            of_cluster = NOT_SERVED if is_final else self.facts.look_up(ParametersKey(kind=kind))
            known = of_cluster.scope or self.given.scope(kind)
            if known is not None:
                self._scopes[kind] = known
        return known

    def named(self, kind: ParamKind, namespace: str, name: str) -> Json | None:
        """The object with a name, from the cluster if it is there."""
        if not self.given.is_final:  # a key takes as long to make as to look up
            objects = self.facts.look_up(ParametersKey(kind=kind, namespace=namespace, name=name)).objects
            if objects:
                return objects[0]
        return self.given.named(kind, namespace, name)

    def selected(self, kind: ParamKind, namespace: str, selector: LabelSelector) -> Sequence[Json]:
        """The objects from both that a selector selects."""
        key = ParametersKey(kind=kind, namespace=namespace, selector=selector)
        objects = () if self.given.is_final else self.facts.look_up(key).objects
        by_name = {_name(obj): obj for obj in (*self.given.selected(kind, namespace, selector), *objects)}
        return [obj for _, obj in sorted(by_name.items())]


Parameters = StaticParameters | ReviewParameters
"""A source of parameters."""


def _name(obj: Json) -> str:
    return str(obj["metadata"].get("name", ""))


def scope_of(kind: ParamKind, parameters: Parameters) -> KindScope:
    """The scope of a policy's paramKind. Raises ConfigurationError for a kind that does not exist."""
    scope = parameters.scope(kind)
    if scope is None:
        group, _, version = kind.api_version.rpartition("/")
        message = f"failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind.kind}'"
        raise ConfigurationError(message)
    return scope


def collect(
    kind: ParamKind | None, binding: Binding, parameters: Parameters, request_namespace: str
) -> tuple[Json | None, ...]:
    """The parameters of a binding. The policy is evaluated once for each of them, or once with None if it has none.

    An empty tuple means that the policy is not evaluated. Raises ConfigurationError and Missing.
    """
    reference = binding.param_ref
    if kind is None or reference is None:
        return (None,)
    scope = scope_of(kind, parameters)
    namespace = "" if scope == "Cluster" else reference.namespace or request_namespace
    if scope == "Namespaced" and not namespace:
        message = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        raise ConfigurationError(message)
    if reference.namespace and scope == "Cluster":
        raise ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    if reference.name:
        named = parameters.named(kind, namespace, reference.name)
        objects: Sequence[Json] = () if named is None else (named,)
    elif reference.selector is not None:
        objects = parameters.selected(kind, namespace, reference.selector)
    else:
        raise ConfigurationError("one of name or selector must be provided")
    if not objects and reference.parameter_not_found_action == "Deny":
        raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return tuple(objects)


def as_kept(params: Json, kind: ParamKind) -> Json:
    """A parameter as policies see it: with its apiVersion and kind, without managedFields if the kind is built in."""
    named = {"apiVersion": kind.api_version, "kind": kind.kind, **params}
    if not _is_typed(kind):
        return named
    return {**named, "metadata": {key: value for key, value in params["metadata"].items() if key != "managedFields"}}


def as_mutating_policies_see(params: Json | None, kind: ParamKind | None) -> Json | None:
    """A parameter of a MutatingAdmissionPolicy: without apiVersion and kind if the kind is built in.

    The validating plugin restores them (wrappedParam in validating/dispatcher.go), the mutating one does not.
    """
    if params is None or kind is None or not _is_typed(kind):
        return params
    named: dict[str, Any] = {key: value for key, value in params.items() if key not in ("apiVersion", "kind")}
    return named


def _is_typed(kind: ParamKind) -> bool:
    """Whether kube-apiserver decodes a kind into a Go type, through client-go's informers.

    Such an object has no apiVersion and kind, and no managedFields (BuildGenericConfig in
    pkg/controlplane/apiserver/config.go).
    """
    return kind.api_version.rpartition("/")[0] in CLIENT_GROUPS
