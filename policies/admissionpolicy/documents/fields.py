"""The fields of each kind with their types, and strict decoding by them.

Decoding follows the API server's `fieldValidation=Strict`: names are case-sensitive, null means absent, an unknown
field or a value of another type is an error. Unlike the API server, it finds all errors at once. Sources:
k8s.io/api/admissionregistration/{v1,v1beta1,v1alpha1}/types.go; sigs.k8s.io/json for the messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from policies.admissionpolicy.documents.document import Path, Spot, show
from policies.golang.strconv import quote
from policies.kubernetes.spelling import closest, did_you_mean, json_name


@dataclass(frozen=True, slots=True)
class Shape:
    """The type of a field.

    json: the type of its JSON; empty for one that the service does not use. go: the name of its Go type. item: of a
    list, or of the values of a map with any keys. fields: of a map with known keys.
    """

    json: Literal["string", "number", "array", "object", ""]
    go: str
    item: Shape | None = None
    fields: Mapping[str, Shape] | None = None


# The decoder's messages name the structs in which these fields are embedded.
_EMBEDDED = {
    "operations": "RuleWithOperations.operations",
    **{name: f"RuleWithOperations.Rule.{name}" for name in ("apiGroups", "apiVersions", "resources", "scope")},
}
_EXPECTED = {"string": "a text, in quotes", "number": "a whole number", "array": "a list", "object": "a map of fields"}
_TYPES: Mapping[str, Any] = {"string": str, "number": int, "array": list, "object": dict}
_NOTHING = object()


def _text(go: str = "string") -> Shape:
    return Shape("string", go)


def _many(item: Shape) -> Shape:
    return Shape("array", f"[]{item.go}", item)


def _struct(go: str, /, **fields: Shape) -> Shape:
    return Shape("object", go if "." in go else f"VERSION.{go}", fields=fields)


_TEXT, _NUMBER, _ANY = _text(), Shape("number", "int64"), Shape("", "interface {}")
_TEXTS = Shape("object", "map[string]string", _TEXT)
_STRINGS = _many(_TEXT)
_SELECTOR = _struct(
    "v1.LabelSelector",
    matchLabels=_TEXTS,
    matchExpressions=_many(
        _struct("v1.LabelSelectorRequirement", key=_TEXT, operator=_text("v1.LabelSelectorOperator"), values=_STRINGS)
    ),
)
_METADATA = _struct(
    "v1.ObjectMeta",
    **dict.fromkeys(("name", "generateName", "namespace"), _TEXT),
    **dict.fromkeys(("labels", "annotations"), _TEXTS),
    finalizers=_STRINGS,
    generation=_NUMBER,
    selfLink=_TEXT,
    uid=_text("types.UID"),
    resourceVersion=_TEXT,
    **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _ANY),
    deletionGracePeriodSeconds=_NUMBER,
    **dict.fromkeys(("ownerReferences", "managedFields"), _ANY),
)
_RULES = _many(
    _struct(
        "NamedRuleWithOperations",
        resourceNames=_STRINGS,
        operations=_many(_text("v1.OperationType")),
        apiGroups=_STRINGS,
        apiVersions=_STRINGS,
        resources=_STRINGS,
        scope=_text("v1.ScopeType"),
    )
)
_MATCH = _struct(
    "MatchResources",
    namespaceSelector=_SELECTOR,
    objectSelector=_SELECTOR,
    resourceRules=_RULES,
    excludeResourceRules=_RULES,
    matchPolicy=_text("VERSION.MatchPolicyType"),
)
_POLICY: Mapping[str, Shape] = {
    "paramKind": _struct("ParamKind", apiVersion=_TEXT, kind=_TEXT),
    "matchConstraints": _MATCH,
    "matchConditions": _many(_struct("MatchCondition", name=_TEXT, expression=_TEXT)),
    "variables": _many(_struct("Variable", name=_TEXT, expression=_TEXT)),
    "failurePolicy": _text("VERSION.FailurePolicyType"),
}
_VALIDATING: Mapping[str, Shape] = {
    **_POLICY,
    "validations": _many(
        _struct("Validation", expression=_TEXT, message=_TEXT, reason=_text("v1.StatusReason"), messageExpression=_TEXT)
    ),
    "auditAnnotations": _many(_struct("AuditAnnotation", key=_TEXT, valueExpression=_TEXT)),
}
_MUTATING: Mapping[str, Shape] = {
    **_POLICY,
    "mutations": _many(
        _struct(
            "Mutation",
            patchType=_text("VERSION.PatchType"),
            applyConfiguration=_struct("ApplyConfiguration", expression=_TEXT),
            jsonPatch=_struct("JSONPatch", expression=_TEXT),
        )
    ),
    "reinvocationPolicy": _text("v1.ReinvocationPolicyType"),
}
_BINDING: Mapping[str, Shape] = {
    "policyName": _TEXT,
    "paramRef": _struct(
        "ParamRef",
        name=_TEXT,
        namespace=_TEXT,
        selector=_SELECTOR,
        parameterNotFoundAction=_text("VERSION.ParameterNotFoundActionType"),
    ),
    "matchResources": _MATCH,
}
_ACTIONS: Mapping[str, Shape] = {"validationActions": _many(_text("VERSION.ValidationAction"))}
EXCEPTION_GLOBS = ("namespaces", "kinds", "names", "users", "groups")


def _kind(name: str, spec: Mapping[str, Shape], **more: Shape) -> Shape:
    return _struct(name, apiVersion=_TEXT, kind=_TEXT, metadata=_METADATA, spec=_struct(f"{name}Spec", **spec), **more)


KINDS: Mapping[str, Shape] = {
    "ValidatingAdmissionPolicy": _kind("ValidatingAdmissionPolicy", _VALIDATING, status=_ANY),
    "ValidatingAdmissionPolicyBinding": _kind("ValidatingAdmissionPolicyBinding", {**_BINDING, **_ACTIONS}),
    "MutatingAdmissionPolicy": _kind("MutatingAdmissionPolicy", _MUTATING),
    "MutatingAdmissionPolicyBinding": _kind("MutatingAdmissionPolicyBinding", _BINDING),
}

EXCEPTION = _kind(
    "PolicyException",
    {
        "policies": _STRINGS,
        "reason": _TEXT,
        "until": _TEXT,
        "match": _struct("ExceptionMatch", **dict.fromkeys(EXCEPTION_GLOBS, _STRINGS), objectSelector=_SELECTOR),
    },
)
"""The service's own kind, which is decoded just as strictly; no API server has words for its types."""


def decode(value: Any, kind: Shape, spot: Spot, version: str) -> dict[str, Any]:
    """The object without unknown fields, values of other types, and nulls. All except nulls are noted as problems."""
    decoded = _Decoder(version, is_native=kind is not EXCEPTION).value(value, kind, spot, kind)
    return decoded if isinstance(decoded, dict) else {}


@dataclass(frozen=True, slots=True)
class _Decoder:
    """is_native: whether the API server knows the kind, and has words for values of a wrong type."""

    version: str
    is_native: bool

    def value(self, value: Any, shape: Shape, spot: Spot, struct: Shape) -> Any:
        """A value decoded by its shape. One that cannot be decoded is hidden from all later checks."""
        if not shape.json:
            return value
        if not isinstance(value, _TYPES[shape.json]) or isinstance(value, bool):
            return self._refused(value, shape, spot, struct, spot.path)
        if shape.fields is not None:
            return self._fields(value, shape, shape.fields, spot)
        if shape.item is None:
            return value
        if shape.json == "array":
            return [self._item(item, shape.item, spot.child(index), struct) for index, item in enumerate(value)]
        texts = {}
        for key, item in value.items():
            if item is None or isinstance(item, str):
                texts[key] = item or ""
            else:
                self._refused(item, shape.item, spot.child(key), struct, spot.path)
        return texts

    def _item(self, value: Any, shape: Shape, spot: Spot, struct: Shape) -> Any:
        """An item of a list. An item that is null or cannot be decoded becomes empty, as in Go."""
        decoded = _NOTHING if value is None else self.value(value, shape, spot, struct)
        return _TYPES[shape.json]() if decoded is _NOTHING else decoded

    def _fields(self, value: Mapping[str, Any], shape: Shape, known: Mapping[str, Shape], spot: Spot) -> dict[str, Any]:
        fields = {}
        for name, item in value.items():
            below = spot.child(name)
            if name not in known:
                hint = did_you_mean(name, known, f"the fields here are {', '.join(known)}")
                below.fault(f"unknown field {quote(show(below.path))}", hint, key=True)
                meant = closest(name, known)
                if meant and meant not in value:
                    spot.report.hide((*spot.path, meant))
            elif item is not None:
                decoded = self.value(item, known[name], below, shape)
                if decoded is not _NOTHING:
                    fields[name] = decoded
        return fields

    def _refused(self, value: Any, shape: Shape, spot: Spot, struct: Shape, path: Path) -> object:
        """Note that a value has the wrong type. path: that of the field, also of an entry of a map."""
        field = ".".join(_EMBEDDED.get(step, step) for step in path if isinstance(step, str))
        into = f"Go struct field {struct.go.rpartition('.')[2]}.{field}" if field else "Go value"
        found = json_name(value)
        message = f"expected {shape.json}, got {found}"
        if self.is_native:
            message = f"json: cannot unmarshal {found} into {into} of type {shape.go.replace('VERSION', self.version)}"
        expected = _EXPECTED[shape.json]
        if shape is _TEXTS:
            expected = "a map of texts"
        elif shape.json == "string" and isinstance(value, list | dict):
            expected = "a text"
        spot.fault(message, f"write {expected} here")
        spot.report.hide(spot.path)
        return _NOTHING
