"""The fields of each kind with their types, and strict decoding by them.

Decoding follows the API server's `fieldValidation=Strict`: names are case-sensitive, null means absent, an unknown
field or a value of another type is an error. Unlike the API server, it finds all errors at once. Sources:
k8s.io/api/admissionregistration/{v1,v1beta1,v1alpha1}/types.go; sigs.k8s.io/json for the messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from policies.admissionpolicy.documents.document import Path, Spot, show
from policies.golang.strconv import quote
from policies.kubernetes.spelling import closest, did_you_mean, json_name


@dataclass(frozen=True, slots=True)
class Text:
    """A string; `go` is the name of its Go type."""

    go: str = "string"


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number."""

    go: str = "int64"


@dataclass(frozen=True, slots=True)
class Anything:
    """A field of any type that the service does not use."""

    go: str = "interface {}"


@dataclass(frozen=True, slots=True)
class Texts:
    """A map of strings."""

    go: str = "map[string]string"


@dataclass(frozen=True, slots=True)
class Many:
    """A list."""

    item: Shape

    @property
    def go(self) -> str:
        """The name of the Go type."""
        return f"[]{self.item.go}"


@dataclass(frozen=True, slots=True)
class Fields:
    """A map with known keys; `name` is the name of its Go type."""

    name: str
    fields: Mapping[str, Shape]

    @property
    def go(self) -> str:
        """The name of the Go type with its package."""
        return f"v1.{self.name}" if self.name in _SHARED else f"VERSION.{self.name}"


Shape = Text | Number | Anything | Texts | Many | Fields

# The decoder's messages name the structs in which these fields are embedded.
_EMBEDDED = {
    "operations": "RuleWithOperations.operations",
    **{name: f"RuleWithOperations.Rule.{name}" for name in ("apiGroups", "apiVersions", "resources", "scope")},
}
_SHARED = frozenset({"ObjectMeta", "LabelSelector", "LabelSelectorRequirement"})
_STRINGS = Many(Text())
_SELECTOR = Fields(
    "LabelSelector",
    {
        "matchLabels": Texts(),
        "matchExpressions": Many(
            Fields(
                "LabelSelectorRequirement",
                {"key": Text(), "operator": Text("v1.LabelSelectorOperator"), "values": _STRINGS},
            )
        ),
    },
)
_METADATA = Fields(
    "ObjectMeta",
    {
        **dict.fromkeys(("name", "generateName", "namespace"), Text()),
        **dict.fromkeys(("labels", "annotations"), Texts()),
        "finalizers": _STRINGS,
        "generation": Number(),
        "selfLink": Text(),
        "uid": Text("types.UID"),
        "resourceVersion": Text(),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), Anything()),
        "deletionGracePeriodSeconds": Number(),
        **dict.fromkeys(("ownerReferences", "managedFields"), Anything()),
    },
)
_RULES = Many(
    Fields(
        "NamedRuleWithOperations",
        {
            "resourceNames": _STRINGS,
            "operations": Many(Text("v1.OperationType")),
            "apiGroups": _STRINGS,
            "apiVersions": _STRINGS,
            "resources": _STRINGS,
            "scope": Text("v1.ScopeType"),
        },
    )
)
_MATCH = Fields(
    "MatchResources",
    {
        "namespaceSelector": _SELECTOR,
        "objectSelector": _SELECTOR,
        "resourceRules": _RULES,
        "excludeResourceRules": _RULES,
        "matchPolicy": Text("VERSION.MatchPolicyType"),
    },
)
_COMMON: Mapping[str, Shape] = {
    "paramKind": Fields("ParamKind", {"apiVersion": Text(), "kind": Text()}),
    "matchConstraints": _MATCH,
    "matchConditions": Many(Fields("MatchCondition", {"name": Text(), "expression": Text()})),
    "variables": Many(Fields("Variable", {"name": Text(), "expression": Text()})),
    "failurePolicy": Text("VERSION.FailurePolicyType"),
}
_VALIDATING: Mapping[str, Shape] = {
    **_COMMON,
    "validations": Many(
        Fields(
            "Validation",
            {"expression": Text(), "message": Text(), "reason": Text("v1.StatusReason"), "messageExpression": Text()},
        )
    ),
    "auditAnnotations": Many(Fields("AuditAnnotation", {"key": Text(), "valueExpression": Text()})),
}
_MUTATING: Mapping[str, Shape] = {
    **_COMMON,
    "mutations": Many(
        Fields(
            "Mutation",
            {
                "patchType": Text("VERSION.PatchType"),
                "applyConfiguration": Fields("ApplyConfiguration", {"expression": Text()}),
                "jsonPatch": Fields("JSONPatch", {"expression": Text()}),
            },
        )
    ),
    "reinvocationPolicy": Text("v1.ReinvocationPolicyType"),
}
_BINDING: Mapping[str, Shape] = {
    "policyName": Text(),
    "paramRef": Fields(
        "ParamRef",
        {
            "name": Text(),
            "namespace": Text(),
            "selector": _SELECTOR,
            "parameterNotFoundAction": Text("VERSION.ParameterNotFoundActionType"),
        },
    ),
    "matchResources": _MATCH,
}
_ACTIONS: Mapping[str, Shape] = {"validationActions": Many(Text("VERSION.ValidationAction"))}
EXCEPTION_GLOBS = ("namespaces", "kinds", "names", "users", "groups")
_EXCEPTION: Mapping[str, Shape] = {
    "policies": _STRINGS,
    "reason": Text(),
    "until": Text(),
    "match": Fields("ExceptionMatch", {**dict.fromkeys(EXCEPTION_GLOBS, _STRINGS), "objectSelector": _SELECTOR}),
}


def _kind(name: str, spec: Mapping[str, Shape], **more: Shape) -> Fields:
    head: dict[str, Shape] = {"apiVersion": Text(), "kind": Text(), "metadata": _METADATA}
    return Fields(name, {**head, "spec": Fields(f"{name}Spec", spec), **more})


KINDS: Mapping[str, Fields] = {
    kind.name: kind
    for kind in (
        _kind("ValidatingAdmissionPolicy", _VALIDATING, status=Anything()),
        _kind("ValidatingAdmissionPolicyBinding", {**_BINDING, **_ACTIONS}),
        _kind("MutatingAdmissionPolicy", _MUTATING),
        _kind("MutatingAdmissionPolicyBinding", _BINDING),
    )
}

EXCEPTION = _kind("PolicyException", _EXCEPTION)
"""The service's own kind, which is decoded just as strictly; no API server has words for its types."""


def decode(value: Any, kind: Fields, spot: Spot, version: str) -> dict[str, Any]:
    """The object without unknown fields, values of other types, and nulls. All except nulls are noted as problems."""
    decoded = _decoded(value, kind, spot, _Reader(version, kind.name, is_native=kind is not EXCEPTION))
    return decoded if isinstance(decoded, dict) else {}


@dataclass(frozen=True, slots=True)
class _Reader:
    """The API version and the name of the struct, the same for all fields of an object.

    is_native: whether the API server knows the kind, and has words for values of a wrong type.
    """

    version: str
    struct: str
    is_native: bool

    def refuse(self, value: Any, shape: Shape, spot: Spot, path: Path = ()) -> None:
        """Note that a value has the wrong type. `path`: of the field, if the value is an entry of a map."""
        names = [_EMBEDDED.get(step, step) for step in (path or spot.path) if isinstance(step, str)]
        field = ".".join(names)
        into = f"Go struct field {self.struct}.{field}" if field else "Go value"
        go = shape.go.replace("VERSION", self.version)
        hint = f"write {_expected(shape, value)} here"
        found = json_name(value)
        native = f"json: cannot unmarshal {found} into {into} of type {go}"
        spot.fault(native if self.is_native else f"expected {_KINDS[type(shape)]}, got {found}", hint)
        spot.report.hide(spot.path)


_KINDS: Mapping[type, str] = {Many: "array", Number: "number", Text: "string", Texts: "object", Fields: "object"}
_NOTHING = object()


def _decoded(value: Any, shape: Shape, spot: Spot, reader: _Reader) -> Any:
    """A value decoded by its shape. A value that cannot be decoded is hidden from all later checks."""
    match shape:
        case Text() | Number() | Anything() if _is_plain(value, shape):
            return value
        case Texts() if isinstance(value, dict):
            return _decoded_map(value, spot, reader)
        case Many() if isinstance(value, list):
            return [_decoded_item(item, shape.item, spot.child(index), reader) for index, item in enumerate(value)]
        case Fields() if isinstance(value, dict):
            return _decoded_fields(value, shape, spot, reader)
        case _:
            reader.refuse(value, shape, spot)
            return _NOTHING


def _is_plain(value: Any, shape: Text | Number | Anything) -> bool:
    if isinstance(shape, Text):
        return isinstance(value, str)
    return isinstance(shape, Anything) or (isinstance(value, int) and not isinstance(value, bool))


def _decoded_item(value: Any, shape: Shape, spot: Spot, reader: _Reader) -> Any:
    """An item of a list. An item that is null or cannot be decoded becomes empty, as in Go."""
    decoded = _NOTHING if value is None else _decoded(value, shape, spot, reader)
    empty: Mapping[type, Any] = {Text: "", Many: [], Texts: {}, Fields: {}}
    return empty.get(type(shape)) if decoded is _NOTHING else decoded


def _decoded_map(value: Mapping[str, Any], spot: Spot, reader: _Reader) -> dict[str, str]:
    texts = {}
    for key, item in value.items():
        if item is None or isinstance(item, str):
            texts[key] = item or ""
        else:
            reader.refuse(item, Text(), spot.child(key), spot.path)
    return texts


def _decoded_fields(value: Mapping[str, Any], shape: Fields, spot: Spot, reader: _Reader) -> dict[str, Any]:
    inner = replace(reader, struct=shape.name)
    fields = {}
    for name, item in value.items():
        known = shape.fields.get(name)
        below = spot.child(name)
        if known is None:
            _refuse_unknown(below, name, shape, value)
        elif item is not None:
            decoded = _decoded(item, known, below, inner)
            if decoded is not _NOTHING:
                fields[name] = decoded
    return fields


def _refuse_unknown(spot: Spot, name: str, shape: Fields, value: Mapping[str, Any]) -> None:
    meant = closest(name, shape.fields)
    hint = did_you_mean(name, shape.fields, f"the fields here are {', '.join(shape.fields)}")
    spot.fault(f"unknown field {quote(show(spot.path))}", hint, key=True)
    if meant and meant not in value:
        spot.report.hide((*spot.path[:-1], meant))


def _expected(shape: Shape, value: Any) -> str:
    match shape:
        case Many():
            return "a list"
        case Number():
            return "a whole number"
        case Texts():
            return "a map of texts"
        case Text():
            return "a text" if isinstance(value, (list, dict)) else "a text, in quotes"
        case _:
            return "a map of fields"
