"""What a mutation's result does to an object, and what it is refused with."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from policies.admissionpolicy import schema
from policies.admissionpolicy.builtin.defaults import received
from policies.admissionpolicy.mutation.application import (
    InternalError,
    MutationError,
    apply_configuration,
    apply_json_patch,
)
from policies.admissionpolicy.schema import Schema
from policies.cel.library import quantity
from policies.cel.patchtypes import JSONPatch, ObjectValue
from policies.cel.types import STRING
from policies.cel.values import NONE, Duration, Optional, Timestamp, Uint, Value
from policies.engine.request import GroupVersionKind, JsonObject

_WIDGET = schema.unknown(GroupVersionKind("example.test", "v1", "Widget"))


def _schema(group: str, kind: str) -> Schema:
    found = schema.built_in(GroupVersionKind(group, "v1", kind))
    assert found is not None
    return found


_PODS = _schema("", "Pod")
_POD: JsonObject = received(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "main", "labels": {"app": "main"}},
        "spec": {
            "restartPolicy": "Always",
            "containers": [
                {"name": "a", "image": "a:1", "command": ["x"]},
                {"name": "b", "image": "b:1", "resources": {"limits": {"cpu": "1"}}},
            ],
        },
    },
    _PODS,
)


def _object(path: str = "", /, **fields: Value) -> ObjectValue:
    return ObjectValue(f"Object{path}", fields)


def _spec(**fields: Value) -> ObjectValue:
    return _object(spec=_object(".spec", **fields))


def _container(**fields: Value) -> ObjectValue:
    return _object(".spec.containers", **fields)


def _with(**changes: Any) -> JsonObject:
    """The Pod with other values at `a__b` paths."""
    whole = deepcopy(_POD)
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = whole
        for parent in parents:
            place = place[parent]
        place[last] = value
    return whole


_FIRST, _SECOND = _POD["spec"]["containers"]


@pytest.mark.parametrize(
    ("value", "result"),
    [
        pytest.param(_object(), _POD, id="nothing"),
        pytest.param(
            _object(metadata=_object(".metadata", labels={"b": "c"})),
            _with(metadata__labels={"app": "main", "b": "c"}),
            id="a-label",
        ),
        pytest.param(_object(kind="Other", apiVersion="v2"), _POD, id="the-kind-stays"),
        pytest.param(
            _spec(containers=[_container(name="b", image="b:2"), _container(name="c")]),
            _with(spec__containers=[_FIRST, {**_SECOND, "image": "b:2"}, {"name": "c"}]),
            id="containers",
        ),
        pytest.param(
            _spec(
                containers=[
                    _container(name="b", resources=_object(".spec.containers.resources", limits={"cpu": "2000m"}))
                ]
            ),
            _with(
                spec__containers=[_FIRST, {**_SECOND, "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}]
            ),
            id="a-quantity-is-written-in-one-way",
        ),
        pytest.param(_spec(restartPolicy=NONE), _with(spec={"containers": _POD["spec"]["containers"]}), id="none"),
        pytest.param(_spec(restartPolicy=Optional("Never")), _with(spec__restartPolicy="Never"), id="optional"),
        pytest.param(_spec(priority=5.0), _with(spec__priority=5), id="a-double-that-is-whole"),
        pytest.param(_spec(priority=2**32 + 3), _with(spec__priority=3), id="an-integer-that-is-too-large"),
        pytest.param(
            _spec(securityContext=_object(".spec.securityContext")), _with(spec__securityContext={}), id="empty"
        ),
    ],
)
def test_configurations(value: ObjectValue, result: JsonObject) -> None:
    """A configuration is merged into the object, which stays as it is, and what is new gets defaults."""
    before = deepcopy(_POD)

    assert apply_configuration(_POD, value, _PODS, ()) == received(result, _PODS)
    assert before == _POD


_NOT_TYPED = "error applying patch: failed to convert patch object to typed object"
_ATOMIC = "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs"
_NOT_CONVERTED = "unable to convert unstructured object to /v1, Kind=Pod"
_MISNAMED = 'unexpected type name "{}", expected "{}", which matches field name path from root Object type'
_GOT = "expected string, got &value.valueUnstructured{{Value:{}}}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (_object(spec=_object(".status")), "type mismatch: " + _MISNAMED.format("Object.status", "Object.spec")),
        (
            _spec(containers=[_object(".a"), _object(".b")]),
            (
                f"type mismatch: {_MISNAMED.format('Object.a', 'Object.spec.containers')}\n"
                f"{_MISNAMED.format('Object.b', 'Object.spec.containers')}"
            ),
        ),
        (
            _object(metadata={"x": _object(".y")}),
            "type mismatch: " + _MISNAMED.format("Object.y", "Object.metadata"),
        ),
        (_spec(hostNetwrok=True), f"{_NOT_TYPED}: .spec.hostNetwrok: field not declared in schema"),
        (_spec(schedulerName=None), f"{_NOT_TYPED}: .spec.schedulerName: {_GOT.format('0')}"),
        (_spec(schedulerName=Uint(10)), f"{_NOT_TYPED}: .spec.schedulerName: {_GOT.format('0xa')}"),
        (_spec(schedulerName=b"a"), f"{_NOT_TYPED}: .spec.schedulerName: {_GOT.format('[]uint8{0x61}')}"),
        (_spec(schedulerName=Duration(10)), f"{_NOT_TYPED}: .spec.schedulerName: {_GOT.format('10')}"),
        (
            _spec(schedulerName=Timestamp(10**18 + 5)),
            f"{_NOT_TYPED}: .spec.schedulerName: "
            + _GOT.format("time.Date(2001, time.September, 9, 1, 46, 40, 5, time.UTC)"),
        ),
        (
            _spec(schedulerName=[[1]]),
            f"{_NOT_TYPED}: .spec.schedulerName: {_GOT.format('[]interface {}{[]ref.Val{1}}')}",
        ),
        (
            _spec(containers=[{"name": "c"}]),
            (f"{_NOT_TYPED}: .spec.containers: element 0: associative list with keys may not have non-map elements"),
        ),
        (
            _spec(securityContext=[{"b": "c", "a": None}]),
            (f"{_NOT_TYPED}: .spec.securityContext: expected map, got &{{[map[a:NULL_VALUE b:c]]}}"),
        ),
        (_object(metadata={1: "a"}), "invalid return type: *dynamic.ObjectVal"),
        (
            _object(metadata=_object(".metadata", labels={1: "a"})),
            (
                f'{_NOT_TYPED}: .metadata: expected map, got &{{fail to convert field "labels": '
                r"map key '\x01' is of type types.Int, not string}"
            ),
        ),
        (
            _object(metadata=_object(".metadata", labels={True: "a"})),
            (
                f'{_NOT_TYPED}: .metadata: expected map, got &{{fail to convert field "labels": '
                "map key %!q(types.Bool=true) is of type types.Bool, not string}"
            ),
        ),
        (_spec(tolerations=[], nodeSelector={}), f"{_ATOMIC}: .spec.tolerations, .spec.nodeSelector"),
        (_spec(priority=5.5), f"{_NOT_CONVERTED}: cannot convert float64 to int32"),
        (
            _spec(
                containers=[
                    _container(
                        name="a",
                        livenessProbe=_object(
                            ".spec.containers.livenessProbe",
                            httpGet=_object(".spec.containers.livenessProbe.httpGet", port=1.5),
                        ),
                    )
                ]
            ),
            f"{_NOT_CONVERTED}: json: cannot unmarshal number 1.5 into Go value of type int32",
        ),
    ],
)
def test_refused_configurations(value: ObjectValue, text: str) -> None:
    """A configuration that the API server refuses is refused in its words."""
    with pytest.raises(MutationError) as caught:
        apply_configuration(_POD, value, _PODS, ())

    assert str(caught.value) == text
    assert not isinstance(caught.value, InternalError)


def test_maps_of_the_inputs_are_json_already() -> None:
    """A map of the request may stand in a list, and null in it is null; one that CEL made may not."""
    params = {"labels": {"a": None}, "container": {"name": "c", "image": "c:1"}}
    value = _object(
        metadata=_object(".metadata", labels=params["labels"]), spec=_object(".spec", containers=[params["container"]])
    )
    result = received(
        _with(
            metadata__labels={"app": "main", "a": ""}, spec__containers=[_FIRST, _SECOND, {"name": "c", "image": "c:1"}]
        ),
        _PODS,
    )

    assert apply_configuration(_POD, value, _PODS, [params]) == result
    assert apply_configuration(_POD, value, _PODS) == result  # inputs not known
    with pytest.raises(MutationError):
        apply_configuration(_POD, value, _PODS, ())


def test_only_changed_paths_are_copied() -> None:
    """What a mutation leaves alone is shared with the object."""
    result = apply_configuration(_POD, _spec(containers=[_container(name="b", image="x")]), _PODS, ())

    assert result["metadata"] is _POD["metadata"]
    assert result["spec"]["containers"][0] is _FIRST


def test_custom_resource_without_a_schema() -> None:
    """Of a kind without a schema maps merge, lists in them are replaced, and null is a value."""
    obj = {"apiVersion": "example.test/v1", "kind": "Widget", "spec": {"a": 1, "list": [1, 2], "map": {"x": 1}}}
    inner = _object(".spec.map", y=2, z=Optional(3))

    result = apply_configuration(obj, _spec(a=NONE, list=[3], map=inner), _WIDGET, ())

    assert result == {**obj, "spec": {"a": None, "list": [3], "map": {"x": 1, "y": 2, "z": 3}}}


def _patch(op: str, path: str, value: Value = ..., from_: str = "") -> JSONPatch:
    return JSONPatch(op, path, from_) if value is ... else JSONPatch(op, path, from_, value)


_ADD = _patch("add", "/metadata/labels/x", "y")
_ADDED = _with(metadata__labels={"app": "main", "x": "y"})


@pytest.mark.parametrize(
    ("patch", "result"),
    [
        pytest.param([], _POD, id="nothing"),
        pytest.param([_ADD], _ADDED, id="add"),
        pytest.param([_patch("test", "/metadata/labels/app", "main"), _ADD], _ADDED, id="a-test-that-agrees"),
        pytest.param([_ADD, _patch("test", "/metadata/labels/app", "other")], None, id="a-test-that-does-not"),
        pytest.param([_patch("replace", "/metadata/labels/x", "y")], _ADDED, id="replace-of-nothing"),
        pytest.param(
            [_patch("add", "/metadata/labels/x", None)],
            _with(metadata__labels={"app": "main", "x": ""}),
            id="null-in-a-map-of-texts",
        ),
        pytest.param(
            [_patch("replace", "/spec/containers/0/command", None)],
            _with(spec__containers=[{"name": "a", "image": "a:1"}, _SECOND]),
            id="null-for-a-field",
        ),
        pytest.param(
            [_patch("add", "/metadata/labels/x", Duration(90 * 10**9))],
            _with(metadata__labels={"app": "main", "x": "90s"}),
            id="a-duration",
        ),
        pytest.param(
            [_patch("add", "/metadata/labels/x", Timestamp(0))],
            _with(metadata__labels={"app": "main", "x": "1970-01-01T00:00:00Z"}),
            id="a-timestamp",
        ),
        pytest.param(
            [_patch("add", "/metadata/labels/x", b"ab")],
            _with(metadata__labels={"app": "main", "x": "YWI="}),
            id="bytes",
        ),
        pytest.param([_patch("add", "/metadata/labels/x", Optional("y"))], _ADDED, id="an-optional"),
        pytest.param([_patch("add", "/spec/priority", Uint(3))], _with(spec__priority=3), id="an-unsigned-integer"),
        pytest.param([_patch("add", "/spec/priority", 3.0)], _with(spec__priority=3), id="a-double-that-is-whole"),
        pytest.param(
            [_patch("add", "/spec/securityContext", _object(".spec.securityContext", runAsUser=Uint(3), x=b"ab"))],
            InternalError,
            id="an-object-with-an-unknown-field",
        ),
        pytest.param(
            [_patch("add", "/spec/securityContext", _object(".spec.securityContext", runAsUser=Uint(3)))],
            _with(spec__securityContext={"runAsUser": 3}),
            id="an-object",
        ),
        pytest.param(
            [_patch("add", "/spec/containers/1/resources/limits/memory", "1024Mi")],
            _with(spec__containers=[_FIRST, {**_SECOND, "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]),
            id="a-quantity",
        ),
    ],
)
def test_json_patches(patch: list[JSONPatch], result: Any) -> None:
    """Operations are applied in their order, or none of them where a test does not agree."""
    before = deepcopy(_POD)

    if result is InternalError:
        with pytest.raises(InternalError):
            apply_json_patch(_POD, patch, _PODS)
    else:
        assert apply_json_patch(_POD, patch, _PODS) == (result and received(result, _PODS))
    assert before == _POD


_NO_JSON = "JSONPath valueExpression evaluated to a type that could not marshal to JSON"
_OBJECT_WITH = _object(".spec.securityContext", x=None)


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        (
            _patch("remove", "/spec/none"),
            (
                "JSON Patch: error in remove for path: '/spec/none': "
                "Unable to remove nonexistent key: none: missing value"
            ),
        ),
        (_patch("set", "/spec/none"), "JSON Patch: Unexpected kind: set"),
        (
            _patch("add", "/x", quantity.parse("1")),
            _NO_JSON + ": type conversion error from 'Quantity' to '*structpb.Value'",
        ),
        (_patch("add", "/x", [NONE]), f"{_NO_JSON}: optional.none() dereference"),
        (_patch("add", "/x", STRING), f"{_NO_JSON}: type conversion not supported for 'type'"),
        (_patch("add", "/x", _ADD), f"{_NO_JSON}: cannot convert to native type: *structpb.Value"),
        (_patch("add", "/x", {1: "a"}), f"{_NO_JSON}: unsupported type conversion from 'int' to string"),
        (_patch("add", "/x", {Uint(1): "a"}), f"{_NO_JSON}: unsupported type conversion from 'uint' to string"),
        (_patch("add", "/x", {True: "a"}), f"{_NO_JSON}: type conversion error from bool to 'string'"),
        (
            _patch("add", "/x", float("nan")),
            f"{_NO_JSON}: json: error calling MarshalJSON for type *structpb.Value: proto: invalid number",
        ),
        (_patch("add", "/x", _OBJECT_WITH), f"{_NO_JSON}: proto: invalid type: structpb.NullValue"),
        (
            _patch("add", "/x", _object(".a", b=_object(".c"))),
            "type mismatch: " + _MISNAMED.format("Object.c", "Object.a.b"),
        ),
    ],
)
def test_refused_patches(patch: JSONPatch, text: str) -> None:
    """An operation that does not apply, or a value that is no JSON, fails the mutation."""
    with pytest.raises(MutationError) as caught:
        apply_json_patch(_POD, [patch], _PODS)

    assert str(caught.value) == text
    assert not isinstance(caught.value, InternalError)


_CANNOT = "json: cannot unmarshal {} into Go struct field {} of type {}"


@pytest.mark.parametrize(
    ("patches", "text"),
    [
        (
            [_patch("add", "/spec/zone", "a"), _patch("add", "/spec/containers/1/imag", "b")],
            'strict decoding error: unknown field "spec.containers[1].imag", unknown field "spec.zone"',
        ),
        (
            [_patch("add", "/spec/zone", "a"), _patch("add", "/spec/priority", "b")],
            _CANNOT.format("string", "PodSpec.spec.priority", "int32"),
        ),
        ([_patch("add", "/spec/priority", 2**31)], _CANNOT.format(f"number {2**31}", "PodSpec.spec.priority", "int32")),
        ([_patch("add", "/spec/priority", 1.5)], _CANNOT.format("number 1.5", "PodSpec.spec.priority", "int32")),
        ([_patch("add", "/spec/priority", value=True)], _CANNOT.format("bool", "PodSpec.spec.priority", "int32")),
        (
            [_patch("add", "/spec/activeDeadlineSeconds", 2**53)],
            _CANNOT.format("string", "PodSpec.spec.activeDeadlineSeconds", "int64"),
        ),
        (
            [_patch("add", "/spec/containers/0/image", 3)],
            _CANNOT.format("number", "Container.spec.containers.image", "string"),
        ),
        (
            [_patch("add", "/spec/containers/0/command", "a")],
            _CANNOT.format("string", "Container.spec.containers.command", "[]string"),
        ),
        (
            [_patch("add", "/metadata/labels", [1])],
            _CANNOT.format("array", "ObjectMeta.metadata.labels", "map[string]string"),
        ),
        ([_patch("add", "/metadata/labels/x", {})], _CANNOT.format("object", "ObjectMeta.metadata.labels", "string")),
        ([_patch("add", "/spec", "a")], _CANNOT.format("string", "Pod.spec", "v1.PodSpec")),
        ([_patch("add", "/spec/hostNetwork", [])], _CANNOT.format("array", "PodSpec.spec.hostNetwork", "bool")),
        (
            [_patch("add", "/spec/containers/1/resources/limits/cpu", "many")],
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ([_patch("replace", "", ["a"])], "couldn't get version/kind"),
    ],
)
def test_results_of_another_type(patches: list[JSONPatch], text: str) -> None:
    """A patched object is decoded strictly: what the kind does not know or cannot hold is an internal error."""
    with pytest.raises(InternalError) as caught:
        apply_json_patch(_POD, patches, _PODS)

    assert str(caught.value) == f"Internal error occurred: {text}"


@pytest.mark.parametrize(
    ("data", "place"),
    [("YWI=", None), ("YQ==", None), ("", None), ("YW\nI=", None), ("!", 0), ("YW!=", 2), ("YWIx=", 4), ("YWI", 0)],
)
def test_bytes_are_base64(data: str, place: int | None) -> None:
    """Binary data that is no base64 is refused, with the place where it is not."""
    obj = {"apiVersion": "v1", "kind": "ConfigMap"}
    value = _object(binaryData={"a": data})
    maps = _schema("", "ConfigMap")

    if place is None:
        text = data.replace("\n", "")
        assert apply_configuration(obj, value, maps) == {**obj, "metadata": {}, "binaryData": {"a": text}}
        return
    with pytest.raises(MutationError) as caught:
        apply_configuration(obj, value, maps)
    assert str(caught.value) == (
        "unable to convert unstructured object to /v1, Kind=ConfigMap: "
        f"error decoding from json: illegal base64 data at input byte {place}"
    )


def test_fields_that_the_object_had_are_not_asked_about() -> None:
    """An object of a later version keeps fields that the table does not know, also beside changed ones."""
    obj = _with(spec__later=1, spec__containers=[{**_FIRST, "later": {"a": 1}}, _SECOND])

    result = apply_json_patch(obj, [_patch("replace", "/spec/containers/0/image", "x")], _PODS)

    assert result == _with(spec__later=1, spec__containers=[{**_FIRST, "later": {"a": 1}, "image": "x"}, _SECOND])


def test_custom_resources_are_not_decoded_strictly() -> None:
    """A custom resource is taken as it is patched: its schema is asked afterwards, by the API server."""
    obj = {"apiVersion": "example.test/v1", "kind": "Widget"}

    assert apply_json_patch(obj, [_patch("add", "/spec", {"a": None})], _WIDGET) == {**obj, "spec": {"a": None}}


def test_values_that_are_too_deep() -> None:
    """A value that is nested deeper than Python can follow fails the mutation, and nothing else."""
    deep: JsonObject = {}
    for _ in range(5000):
        deep = {"a": deep}
    obj = {"apiVersion": "example.test/v1", "kind": "Widget", "spec": {"a": 1}}

    with pytest.raises(MutationError) as merged:
        apply_configuration(obj, _object(spec=deep), _WIDGET)
    with pytest.raises(MutationError) as patched:
        apply_json_patch(obj, [_patch("add", "/spec", deep)], _WIDGET)

    assert {str(merged.value), str(patched.value)} == {"the object is nested too deeply to be changed"}
