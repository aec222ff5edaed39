"""Which objects are a binding's parameters for a request.

Source: CollectParams in k8s.io/apiserver's pkg/admission/plugin/policy/generic/policy_dispatcher.go, and
policy_source.go for a paramKind that the cluster does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

from policies.admissionpolicy.inputs import Json
from policies.admissionpolicy.model import Binding, ParamKind, ParamRef
from policies.admissionpolicy.wanted import WantedParameters
from policies.engine.facts import NeededLookUp
from policies.engine.match import LabelSelector
from policies.kubernetes.group import CLIENT_GROUPS

KindScope = Literal["Cluster", "Namespaced"]


class ConfigurationError(Exception):
    """A policy or binding is misconfigured and cannot be evaluated; the text is the API server's."""


class UnknownParameters(NeededLookUp):
    """Parameter objects, or only the scope of their kind, are needed and not known yet.

    wanted: which ones, in the namespace that follows from the request.
    """

    def __init__(
        self, kind: ParamKind, *, namespace: str = "", name: str = "", selector: LabelSelector | None = None
    ) -> None:
        self.wanted = WantedParameters(kind=kind, namespace=namespace, name=name, selector=selector)
        super().__init__(f"{self.wanted} is not known yet")


class Parameters(Protocol):
    """Where parameter objects come from: the API server's, decoded, with apiVersion and kind.

    All methods may raise UnknownParameters, and ConfigurationError for what cannot be had.
    """

    def scope(self, kind: ParamKind) -> KindScope | None:
        """Whether objects of a kind are in namespaces; None for a kind that does not exist."""
        ...

    def named(self, kind: ParamKind, namespace: str, name: str) -> Json | None:
        """The object of a name, or None. `namespace` is empty for a cluster-scoped kind."""
        ...

    def selected(self, kind: ParamKind, namespace: str, selector: LabelSelector) -> Sequence[Json]:
        """The objects with labels that a selector selects, in the order of their names."""
        ...


@dataclass(frozen=True)
class StaticParameters:
    """Parameters that are all at hand: those of a directory, or of a test. `scopes` are the kinds that there are."""

    objects: Sequence[Json] = ()
    scopes: Mapping[ParamKind, KindScope] = field(default_factory=dict)

    def scope(self, kind: ParamKind) -> KindScope | None:
        """The scope given for a kind."""
        return self.scopes.get(kind)

    def named(self, kind: ParamKind, namespace: str, name: str) -> Json | None:
        """The object given of this name."""
        return self._by_name.get((kind.api_version, kind.kind, namespace, name))

    def selected(self, kind: ParamKind, namespace: str, selector: LabelSelector) -> Sequence[Json]:
        """The objects given that a selector selects."""
        objects = self._of(kind, namespace)
        return sorted((obj for obj in objects if selector.matches(obj["metadata"].get("labels") or {})), key=_name)

    def _of(self, kind: ParamKind, namespace: str) -> list[Json]:
        place = (kind.api_version, kind.kind, namespace)
        return [obj for obj in self.objects if _place(obj) == place]

    @cached_property
    def _by_name(self) -> Mapping[tuple[Any, ...], Json]:
        """The objects by kind, namespace and name; of two alike the first. What has no proper name is left out."""
        named = [((*_place(obj), obj["metadata"].get("name")), obj) for obj in reversed(self.objects)]
        return {key: obj for key, obj in named if all(isinstance(part, str) for part in key)}


def _place(obj: Json) -> tuple[Any, ...]:
    return obj.get("apiVersion"), obj.get("kind"), obj["metadata"].get("namespace", "")


NO_PARAMETERS = StaticParameters()


@dataclass(frozen=True, slots=True)
class LayeredParameters:
    """Parameters from two places: an object of the first hides the one of the same kind, namespace and name."""

    first: Parameters
    second: Parameters

    def scope(self, kind: ParamKind) -> KindScope | None:
        """The scope of a kind where the first of both knows it."""
        return self.first.scope(kind) or self.second.scope(kind)

    def named(self, kind: ParamKind, namespace: str, name: str) -> Json | None:
        """The object of a name from the first that has it."""
        first = self.first.named(kind, namespace, name)
        return self.second.named(kind, namespace, name) if first is None else first

    def selected(self, kind: ParamKind, namespace: str, selector: LabelSelector) -> Sequence[Json]:
        """The objects of both that a selector selects."""
        layers = (self.second, self.first)
        by_name = {_name(obj): obj for layer in layers for obj in layer.selected(kind, namespace, selector)}
        return [obj for _, obj in sorted(by_name.items())]


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
    """The parameters of a binding. The policy is evaluated once for each; without parameters, once with None.

    An empty tuple means that the policy is not evaluated. Raises ConfigurationError, and UnknownParameters.
    """
    reference = binding.param_ref
    if kind is None or reference is None:
        return (None,)
    scope = scope_of(kind, parameters)
    namespace = _namespace(scope, reference, request_namespace)
    if reference.namespace and scope == "Cluster":
        raise ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    objects = _referenced(kind, namespace, reference, parameters)
    if not objects and reference.parameter_not_found_action == "Deny":
        raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return objects


def _namespace(scope: KindScope, reference: ParamRef, request_namespace: str) -> str:
    if scope == "Cluster":
        return ""
    if not (reference.namespace or request_namespace):
        message = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        raise ConfigurationError(message)
    return reference.namespace or request_namespace


def _referenced(kind: ParamKind, namespace: str, reference: ParamRef, parameters: Parameters) -> tuple[Json, ...]:
    if reference.name:
        named = parameters.named(kind, namespace, reference.name)
        return () if named is None else (named,)
    if reference.selector is None:
        raise ConfigurationError("one of name or selector must be provided")
    return tuple(parameters.selected(kind, namespace, reference.selector))


def as_kept(params: Json, kind: ParamKind) -> Json:
    """A parameter from the API server as policies see it: named, and without managedFields if its kind is built in."""
    named = {"apiVersion": kind.api_version, "kind": kind.kind, **params}
    if not _is_typed(kind):
        return named
    return {**named, "metadata": {key: value for key, value in params["metadata"].items() if key != "managedFields"}}


def as_mutating_policies_see(params: Json | None, kind: ParamKind | None) -> Json | None:
    """The parameters of a MutatingAdmissionPolicy: those of a built-in kind have no apiVersion and kind there.

    The validating plugin puts them back (wrappedParam in validating/dispatcher.go), the mutating one does not.
    """
    if params is None or kind is None or not _is_typed(kind):
        return params
    named: dict[str, Any] = {key: value for key, value in params.items() if key not in ("apiVersion", "kind")}
    return named


def _is_typed(kind: ParamKind) -> bool:
    """Whether kube-apiserver reads a kind as a Go type, through client-go's informers.

    Such an object does not know its own kind, and is kept without managedFields (BuildGenericConfig in
    pkg/controlplane/apiserver/config.go).
    """
    return kind.api_version.rpartition("/")[0] in CLIENT_GROUPS
