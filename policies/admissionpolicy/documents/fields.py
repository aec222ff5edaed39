"""The fields of each kind with their types, and strict decoding by them.

Decoding follows the API server's `fieldValidation=Strict`: names are case-sensitive, null means absent, an unknown
field or a value of another type is an error. Unlike the API server, it finds all errors at once. Source:
k8s.io/api/admissionregistration/{v1,v1beta1,v1alpha1}/types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from policies.admissionpolicy.documents.document import Spot, show
from policies.golang.strconv import quote
from policies.kubernetes.spelling import closest, did_you_mean, json_name


@dataclass(frozen=True, slots=True)
class Shape:
    """The type of a field.

    json: the type of its JSON; empty for one that the service does not use. item: of a list, or of the values of a map
    with any keys. fields: of a map with known keys.
    """

    json: Literal["string", "number", "array", "object", ""]
    item: Shape | None = None
    fields: Mapping[str, Shape] | None = None


_EXPECTED = {"string": "a text, in quotes", "number": "a whole number", "array": "a list", "object": "a map of fields"}
_TYPES: Mapping[str, Any] = {"string": str, "number": int, "array": list, "object": dict}
_NOTHING = object()


def _many(item: Shape) -> Shape:
    return Shape("array", item)


def _struct(**fields: Shape) -> Shape:
    return Shape("object", fields=fields)


_TEXT, _NUMBER, _ANY = Shape("string"), Shape("number"), Shape("")
_TEXTS = Shape("object", _TEXT)
_STRINGS = _many(_TEXT)
_SELECTOR = _struct(matchLabels=_TEXTS, matchExpressions=_many(_struct(key=_TEXT, operator=_TEXT, values=_STRINGS)))
_METADATA = _struct(
    **dict.fromkeys(("name", "generateName", "namespace"), _TEXT),
    **dict.fromkeys(("labels", "annotations"), _TEXTS),
    finalizers=_STRINGS,
    generation=_NUMBER,
    selfLink=_TEXT,
    uid=_TEXT,
    resourceVersion=_TEXT,
    **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _ANY),
    deletionGracePeriodSeconds=_NUMBER,
    **dict.fromkeys(("ownerReferences", "managedFields"), _ANY),
)
_RULES = _many(
    _struct(
        resourceNames=_STRINGS,
        operations=_STRINGS,
        apiGroups=_STRINGS,
        apiVersions=_STRINGS,
        resources=_STRINGS,
        scope=_TEXT,
    )
)
_MATCH = _struct(
    namespaceSelector=_SELECTOR,
    objectSelector=_SELECTOR,
    resourceRules=_RULES,
    excludeResourceRules=_RULES,
    matchPolicy=_TEXT,
)
_POLICY: Mapping[str, Shape] = {
    "paramKind": _struct(apiVersion=_TEXT, kind=_TEXT),
    "matchConstraints": _MATCH,
    "matchConditions": _many(_struct(name=_TEXT, expression=_TEXT)),
    "variables": _many(_struct(name=_TEXT, expression=_TEXT)),
    "failurePolicy": _TEXT,
}
_VALIDATING: Mapping[str, Shape] = {
    **_POLICY,
    "validations": _many(_struct(expression=_TEXT, message=_TEXT, reason=_TEXT, messageExpression=_TEXT)),
    "auditAnnotations": _many(_struct(key=_TEXT, valueExpression=_TEXT)),
}
_MUTATING: Mapping[str, Shape] = {
    **_POLICY,
    "mutations": _many(
        _struct(patchType=_TEXT, applyConfiguration=_struct(expression=_TEXT), jsonPatch=_struct(expression=_TEXT))
    ),
    "reinvocationPolicy": _TEXT,
}
_BINDING: Mapping[str, Shape] = {
    "policyName": _TEXT,
    "paramRef": _struct(name=_TEXT, namespace=_TEXT, selector=_SELECTOR, parameterNotFoundAction=_TEXT),
    "matchResources": _MATCH,
}
_ACTIONS: Mapping[str, Shape] = {"validationActions": _STRINGS}
EXCEPTION_GLOBS = ("namespaces", "kinds", "names", "users", "groups")


def _kind(spec: Mapping[str, Shape], **more: Shape) -> Shape:
    return _struct(apiVersion=_TEXT, kind=_TEXT, metadata=_METADATA, spec=_struct(**spec), **more)


KINDS: Mapping[str, Shape] = {
    "ValidatingAdmissionPolicy": _kind(_VALIDATING, status=_ANY),
    "ValidatingAdmissionPolicyBinding": _kind({**_BINDING, **_ACTIONS}),
    "MutatingAdmissionPolicy": _kind(_MUTATING),
    "MutatingAdmissionPolicyBinding": _kind(_BINDING),
}

EXCEPTION = _kind(
    {
        "policies": _STRINGS,
        "reason": _TEXT,
        "until": _TEXT,
        "match": _struct(**dict.fromkeys(EXCEPTION_GLOBS, _STRINGS), objectSelector=_SELECTOR),
    }
)
"""The service's own kind, which is decoded just as strictly."""


def decode(value: Any, kind: Shape, spot: Spot) -> dict[str, Any]:
    """The object without unknown fields, values of other types, and nulls. All except nulls are noted as problems."""
    decoded = _decoded(value, kind, spot)
    return decoded if isinstance(decoded, dict) else {}


def _decoded(value: Any, shape: Shape, spot: Spot) -> Any:
    """A value decoded by its shape. One that cannot be decoded is hidden from all later checks."""
    if not shape.json:
        return value
    if not isinstance(value, _TYPES[shape.json]) or isinstance(value, bool):
        expected = _EXPECTED[shape.json]
        if shape is _TEXTS:
            expected = "a map of texts"
        elif shape.json == "string" and isinstance(value, list | dict):
            expected = "a text"
        spot.fault(f"expected {shape.json}, got {json_name(value)}", f"write {expected} here")
        spot.report.hide(spot.path)
        return _NOTHING
    if shape.fields is not None:
        return _fields(value, shape.fields, spot)
    if shape.item is None:
        return value
    if shape.json == "array":
        # An item that is null or cannot be decoded becomes empty, as in Go.
        empty, items = _TYPES[shape.item.json](), []
        for index, item in enumerate(value):
            decoded = _NOTHING if item is None else _decoded(item, shape.item, spot.child(index))
            items.append(empty if decoded is _NOTHING else decoded)
        return items
    texts = {key: "" if item is None else _decoded(item, shape.item, spot.child(key)) for key, item in value.items()}
    return {key: text for key, text in texts.items() if text is not _NOTHING}


def _fields(value: Mapping[str, Any], known: Mapping[str, Shape], spot: Spot) -> dict[str, Any]:
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
            decoded = _decoded(item, known[name], below)
            if decoded is not _NOTHING:
                fields[name] = decoded
    return fields
