"""Types of expressions in Kubernetes' words, types from OpenAPI schemas, and what is known once the kind is known.

tests/cluster compares many more types with a real cluster.
"""

from typing import Any

import pytest
from support.policies.lintpolicies import DEPLOYMENTS, PODS, policy

from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.reader import read
from policies.cel import types
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import Source
from policies.engine.request import GroupVersionKind
from policies.lint.typecheck import KindTests, catalog, checked_kinds, declare, escaped

_CORE = ["pods", "services", "configmaps", "secrets", "nodes", "namespaces", "endpoints", "limitranges", "bindings"]

_KINDS = ["Binding", "ConfigMap", "Endpoints", "LimitRange", "Namespace", "Node", "Pod", "Secret"]


def _read(document: dict[str, Any]) -> Any:
    return read([Document(value=document, name="p.yaml", places=lambda _: (1, 1))]).policies[0]


@pytest.mark.parametrize(
    ("rules", "kinds"),
    [
        (({**DEPLOYMENTS, "apiVersions": ["*"]},), []),
        (({**DEPLOYMENTS, "resources": ["*"]},), []),
        (({**DEPLOYMENTS, "resources": ["deployments/scale"]},), []),
        (({**DEPLOYMENTS, "resources": ["deployment"]},), ["Deployment"]),
        (({**DEPLOYMENTS, "apiGroups": [""]},), ["Deployment"]),
        (({**PODS, "resources": ["events"]},), ["Event", "Event"]),
        (
            ({**PODS, "resources": _CORE}, DEPLOYMENTS),
            [*_KINDS, "Deployment", "Service"],
        ),
        (
            ({**PODS, "resources": [*_CORE, "events"]}, DEPLOYMENTS),
            [*_KINDS, "Event", "Event"],
        ),
    ],
    ids=["any version", "any resource", "subresource", "singular", "any group", "two groups", "nine", "ten are enough"],
)  # fmt: skip
def test_kinds_that_are_checked(rules: tuple[dict[str, Any], ...], kinds: list[str]) -> None:
    """Rules without wildcards lead to kinds as a RESTMapper finds them, and a rule with ten of them ends the search."""
    found = checked_kinds(_read(policy("true", rules=rules)), catalog(()))

    assert sorted(kind.kind for kind in found) == sorted(kinds)


_TEXT = {"type": "string"}
_OPEN = {"x-kubernetes-preserve-unknown-fields": True}


def _fields(schema: dict[str, Any], untyped: types.Type | None = None) -> dict[str, str]:
    declared = declare("Thing", {"type": "object", "properties": {"spec": schema}}, untyped)
    assert declared is not None
    return {path: str(declared.structs[path]["spec"]) for path in declared.structs if "spec" in declared.structs[path]}


@pytest.mark.parametrize(
    ("schema", "exact", "lenient"),
    [
        (_TEXT, "string", "string"),
        ({"type": "string", "format": "date-time"}, "timestamp", "timestamp"),
        ({"type": "string", "format": "byte"}, "bytes", "bytes"),
        ({"type": "integer", "format": "int32"}, "int", "int"),
        ({"type": "number"}, "double", "double"),
        ({"type": "array", "items": _TEXT}, "list(string)", "list(string)"),
        ({"type": "object", "additionalProperties": _TEXT}, "map(string, string)", "map(string, string)"),
        ({"x-kubernetes-int-or-string": True}, "dyn", "dyn"),
        (_OPEN, None, "dyn"),
        ({"type": "array"}, None, "list(dyn)"),
        ({"type": "object", "additionalProperties": _OPEN}, None, "map(string, dyn)"),
        ({"type": "object", **_OPEN}, "Thing.spec", "dyn"),
        ({"type": "object", "properties": {"a": _TEXT}}, "Thing.spec", "Thing.spec"),
    ],
    ids=[
        "text", "time", "bytes", "int", "number", "list", "map", "int or text", "anything", "list of anything",
        "map of anything", "open object", "object",
    ],
)  # fmt: skip
def test_type_of_a_schema(schema: dict[str, Any], exact: str | None, lenient: str) -> None:
    """What Kubernetes has no type for has no field; where that would mislead it is dyn."""
    assert _fields(schema) == ({"Thing": exact} if exact else {})
    assert _fields(schema, types.DYN) == {"Thing": lenient}


def test_root_always_has_a_kind_and_a_name() -> None:
    """The fields of every object are there even where a schema leaves them out."""
    declared = declare("Thing", {"type": "object"})

    assert declared is not None
    assert declared.structs == {
        "Thing": {"kind": types.STRING, "apiVersion": types.STRING, "metadata": types.struct("Thing.metadata")},
        "Thing.metadata": {"name": types.STRING, "generateName": types.STRING},
    }


def test_required_fields_and_defaults_are_always_there() -> None:
    """A field without either may be absent."""
    properties = {"a": _TEXT, "b": {**_TEXT, "default": ""}, "c": _TEXT}
    declared = declare("Thing", {"type": "object", "required": ["a"], "properties": properties})

    assert declared is not None
    assert declared.present["Thing"] == {"a", "b"}


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("replicas", "replicas"),
        ("namespace", "__namespace__"),
        ("some-key", "some__dash__key"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("$ref", None),
        ("1st", None),
    ],
)
def test_names_of_properties_are_escaped(name: str, identifier: str | None) -> None:
    """A name that is no identifier is written with words between underscores; some cannot be written."""
    assert escaped(name) == identifier


_TESTS = KindTests(
    GroupVersionKind("apps", "v1", "Deployment"), {"isPod": parse(Source("object.kind == 'Pod'"))}, {3: True}
)
_DECIDED = {
    "object.kind == 'Pod'": False,
    "object.kind != 'Pod'": True,
    "'Deployment' == oldObject.kind": True,
    "request.kind.group == 'apps' && object.apiVersion == 'apps/v1'": True,
    "object.kind in ['Pod', 'Deployment']": True,
    "!(object.kind in ['Pod'])": True,
    "['Pod', 'Job'].all(k, object.kind != k)": True,
    "['Pod', 'Deployment'].exists(k, object.kind == k)": True,
    "object.kind == 'Pod' || object.spec.a": None,
    "object.kind == 'Pod' && object.spec.a": False,
    "object.spec.a && object.kind == 'Pod'": False,
    "object.kind == 'Pod' ? object.a : true": True,
    "variables.isPod": False,
    "has(object.spec)": True,
    "object.metadata.kind == 'Pod'": None,
    "['Pod'].map(object, object.kind).size() > 0": None,
    "object.kind == object.spec.kind": None,
    "object.kind in object.kinds": None,
}


@pytest.mark.parametrize(("text", "expected"), _DECIDED.items())
def test_tests_of_the_kind_are_decided(text: str, expected: bool | None) -> None:  # noqa: FBT001 - a column of the table
    """What depends on the kind alone is known, and nothing else is."""
    assert _TESTS.decided(parse(Source(text))) is expected
