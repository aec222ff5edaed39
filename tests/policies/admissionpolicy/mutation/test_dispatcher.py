"""MutatingAdmissionPolicies change an object one after the other, as kube-apiserver's plugin does."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.builders import Json
from support.policies.admissionpolicies import binding, inputs, mutating, parameters

from policies.admissionpolicy import schema
from policies.admissionpolicy.builtin.defaults import received
from policies.admissionpolicy.evaluation.compilation import CompiledPolicy
from policies.admissionpolicy.evaluation.validator import Result
from policies.admissionpolicy.model import Expression, NamedExpression
from policies.admissionpolicy.mutation import dispatcher
from policies.admissionpolicy.mutation.dispatcher import (
    DisagreementError,
    InternalError,
    Mutated,
    MutationError,
    OperationError,
    apply_configuration,
    apply_json_patch,
)
from policies.admissionpolicy.mutation.merge import Foreign, MergeError, atomics, check, merge
from policies.admissionpolicy.schema import Definitions, Schema, SchemaNode
from policies.cel.library import quantity
from policies.cel.patchtypes import JSONPatch, ObjectValue
from policies.cel.types import STRING
from policies.cel.values import ABSENT, NONE, Optional, Uint, Value
from policies.engine.request import GroupVersionKind, JsonObject


def _schema(kind: str) -> Schema:
    found = schema.built_in(GroupVersionKind("", "v1", kind))
    assert found is not None
    return found


_CONFIG_MAPS, _PODS = _schema("ConfigMap"), _schema("Pod")
BINDING = binding(kind="MutatingAdmissionPolicyBinding")
ERROR = "[JSONPatch{op: 'add', path: '/data/b', value: object.data.x}]"
UNKNOWN = "[JSONPatch{op: 'add', path: '/nothing', value: 'x'}]"


def add(key: str, value: str = "'x'") -> str:
    """A patch that adds an entry."""
    return f"[JSONPatch{{op: 'add', path: '/data/{key}', value: {value}}}]"


def applied(*policies: CompiledPolicy, **fields: Any) -> Mutated:
    """What policies make of the object, each with one binding."""
    selected = [(each, [BINDING]) for each in policies]
    return dispatcher.mutate(lambda _: selected, parameters(), inputs(**fields), _CONFIG_MAPS)


def data(mutated: Mutated) -> Any:
    """The entries of the object after it."""
    return (mutated.object or {})["data"]


def test_the_time_of_each_policy_is_told() -> None:
    """After each policy, in both rounds, in the order of application; also after one that fails."""
    names: list[str] = []
    applied(mutating(ERROR, failure_policy="Ignore"), mutating(add("b"), name="q"), after_rule=names.append)
    assert names == ["p", "q", "p", "q"]


def test_a_result_that_is_no_such_object_ends_everything() -> None:
    """An internal error, whatever the failurePolicy; it hides what was found before."""
    mutated = applied(mutating(ERROR, UNKNOWN, add("c"), failure_policy="Ignore"), mutating(add("d")))
    assert mutated.denial is not None
    assert (mutated.denial.native, mutated.denial.status.code, mutated.denial.reason, data(mutated)) == (
        'Internal error occurred: strict decoding error: unknown field "nothing"',
        500,
        "InternalError",
        {"a": "1"},
    )


def test_the_match_conditions_see_the_object_as_it_is_by_then() -> None:
    """A policy before can make them true or false."""
    condition = NamedExpression(name="c", expression=Expression(text="has(object.data.b)", path="spec"))
    second = mutating(add("c"), name="q", match_conditions=(condition,))
    assert data(applied(mutating(add("b")), second)) == {"a": "1", "b": "x", "c": "x"}
    skipped = applied(second)
    assert (data(skipped), skipped.result) == ({"a": "1"}, Result())


def test_what_does_not_compile_fails_by_its_own_words() -> None:
    """Without the `compilation error:` of a validating policy."""
    mutated = applied(mutating("Object{metadata: object.metadata}", "1 + 1"))
    assert [each.message for each in mutated.result.findings] == ["must evaluate to Object but got int"]


def test_a_map_that_cel_makes_is_no_json_in_an_object() -> None:
    """Nor in an object that a JSON Patch adds, as in the API server."""
    result = applied(mutating(add("b", "Object.data.b{x: [{'a': 'b'}]}"))).result
    assert [finding.message for finding in result.findings] == [
        "JSONPath valueExpression evaluated to a type that could not marshal to JSON: proto: invalid type: map"
    ]


_DOCUMENT: dict[str, Any] = {"map": {"a": 1, "none": None, "a/b": 2, "empty": {}}, "list": [1, 2, 3], "text": "x"}
_CASES = yaml.safe_load(Path(__file__).with_name("jsonpatch.yaml").read_text(encoding="utf-8"))


def _operation(case: Json) -> JSONPatch:
    return JSONPatch(case["op"], case["path"], case.get("from", ""), case.get("value", ABSENT))


def _id(case: Json) -> str:
    return str(case.get("name", list(case.values())))


@pytest.mark.parametrize("case", _CASES["applied"], ids=_id)
def test_operations(case: Json) -> None:
    """An operation does what it does in the API server, and the document is not changed."""
    before = deepcopy(_DOCUMENT)

    result = dispatcher.apply(_DOCUMENT, [_operation(case)])

    assert result == case.get("result", _DOCUMENT | case.get("changes", {}))
    assert before == _DOCUMENT


@pytest.mark.parametrize("case", [*_CASES["failed"], *_CASES["refused"]], ids=_id)
def test_operations_that_do_not_apply(case: Json) -> None:
    """An operation that does not apply is refused with the reason, and told from a test that does not agree."""
    with pytest.raises(OperationError) as caught:
        dispatcher.apply(_DOCUMENT, [_operation(case)])

    disagrees = DisagreementError, f"testing value {case['path']} failed: test failed"
    assert (type(caught.value), str(caught.value)) == ((OperationError, case["text"]) if "text" in case else disagrees)


def test_each_operation_sees_the_last_result() -> None:
    """Operations are applied one after the other; containers that none reaches are shared."""
    operations = [
        JSONPatch("add", "/new", value={}),
        JSONPatch("add", "/new/a", value=1),
        JSONPatch("move", "/map/b", "/new/a"),
    ]

    result = dispatcher.apply(_DOCUMENT, operations)

    assert result == _DOCUMENT | {"new": {}, "map": {**_DOCUMENT["map"], "b": 1}}
    assert result["list"] is _DOCUMENT["list"]


def test_copies_are_limited() -> None:
    """All copies together add no more than the API server allows."""
    document = {"big": "x" * (dispatcher.MAX_COPIED_BYTES // 2)}
    copies = [JSONPatch("copy", f"/{name}", "/big") for name in ("a", "b")]

    assert len(dispatcher.apply(document, copies[:1])) == 2
    with pytest.raises(OperationError) as caught:
        dispatcher.apply(document, copies)
    size = 2 * (dispatcher.MAX_COPIED_BYTES // 2 + 2)
    assert str(caught.value) == f"copy /b from /big: the patch copies {size} bytes, and may copy 3145728"


_WIDGET = schema.unknown(GroupVersionKind("example.test", "v1", "Widget"))


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


_NO_JSON = "JSONPath valueExpression evaluated to a type that could not marshal to JSON"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (quantity.parse("1"), _NO_JSON + ": type conversion error from 'Quantity' to '*structpb.Value'"),
        ([NONE], f"{_NO_JSON}: optional.none() dereference"),
        (STRING, f"{_NO_JSON}: type conversion not supported for 'type'"),
        (JSONPatch("remove", "/x"), f"{_NO_JSON}: cannot convert to native type: *structpb.Value"),
        ({1: "a"}, f"{_NO_JSON}: unsupported type conversion from 'int' to string"),
        ({Uint(1): "a"}, f"{_NO_JSON}: unsupported type conversion from 'uint' to string"),
        ({True: "a"}, f"{_NO_JSON}: unsupported type conversion from 'bool' to string"),
        (
            float("nan"),
            f"{_NO_JSON}: json: error calling MarshalJSON for type *structpb.Value: proto: invalid number",
        ),
        (_object(".spec.securityContext", x=None), f"{_NO_JSON}: proto: invalid type: null_type"),
        (
            _object(".a", b=_object(".c")),
            (
                'type mismatch: unexpected type name "Object.c", expected "Object.a.b", '
                "which matches field name path from root Object type"
            ),
        ),
    ],
)
def test_refused_values(value: Value, text: str) -> None:
    """A value that is no JSON fails the mutation."""
    with pytest.raises(MutationError) as caught:
        apply_json_patch(_POD, [JSONPatch("add", "/x", value=value)], _PODS)

    assert str(caught.value) == text
    assert not isinstance(caught.value, InternalError)


@pytest.mark.parametrize(
    ("data", "place"),
    [("YWI=", None), ("YQ==", None), ("", None), ("YW\nI=", None), ("!", 0), ("YW!=", 2), ("YWI", 3)],
)
def test_bytes_are_base64(data: str, place: int | None) -> None:
    """Binary data that is no base64 is refused, with the place where it is not."""
    obj = {"apiVersion": "v1", "kind": "ConfigMap"}
    value = _object(binaryData={"a": data})

    if place is None:
        text = data.replace("\n", "")
        assert apply_configuration(obj, value, _CONFIG_MAPS) == {**obj, "metadata": {}, "binaryData": {"a": text}}
        return
    with pytest.raises(MutationError) as caught:
        apply_configuration(obj, value, _CONFIG_MAPS)
    assert str(caught.value) == (
        "unable to convert unstructured object to /v1, Kind=ConfigMap: "
        f"error decoding from json: illegal base64 data at input byte {place}"
    )


def test_fields_that_the_object_had_are_not_asked_about() -> None:
    """An object of a later version keeps fields that the table does not know, also beside changed ones."""
    obj = _with(spec__later=1, spec__containers=[{**_FIRST, "later": {"a": 1}}, _SECOND])

    result = apply_json_patch(obj, [JSONPatch("replace", "/spec/containers/0/image", value="x")], _PODS)

    assert result == _with(spec__later=1, spec__containers=[{**_FIRST, "later": {"a": 1}, "image": "x"}, _SECOND])


def test_custom_resources_are_not_decoded_strictly() -> None:
    """A custom resource is taken as it is patched: its schema is asked afterwards, by the API server."""
    obj = {"apiVersion": "example.test/v1", "kind": "Widget"}

    assert apply_json_patch(obj, [JSONPatch("add", "/spec", value={"a": None})], _WIDGET) == {
        **obj,
        "spec": {"a": None},
    }


def test_values_that_are_too_deep() -> None:
    """A value that is nested deeper than Python can follow fails the mutation, and nothing else."""
    deep: JsonObject = {}
    for _ in range(5000):
        deep = {"a": deep}
    obj = {"apiVersion": "example.test/v1", "kind": "Widget", "spec": {"a": 1}}

    with pytest.raises(MutationError) as merged:
        apply_configuration(obj, _object(spec=deep), _WIDGET)
    with pytest.raises(MutationError) as patched:
        apply_json_patch(obj, [JSONPatch("add", "/spec", value=deep)], _WIDGET)

    assert {str(merged.value), str(patched.value)} == {"the object is nested too deeply to be changed"}


def test_a_patch_that_doubles() -> None:
    """Lists that hold one another twice are small, and large written out: the patch is refused before that is done."""
    doubled: Value = "x"
    for _ in range(30):
        doubled = [doubled, doubled]
    refused = "the patch has {} values when it is written out, and may have 1000000"

    with pytest.raises(MutationError) as merged:
        apply_configuration(_POD, _object(metadata=_object(".metadata", labels={"a": doubled})), _PODS, [])
    with pytest.raises(MutationError) as patched:
        apply_json_patch(_POD, [JSONPatch("add", "/metadata/labels/a", value=doubled)], _PODS)

    assert str(merged.value) == refused.format(2**31 + 5)
    assert str(patched.value) == refused.format(2**31)


_MERGES = yaml.safe_load(Path(__file__).with_name("merge.yaml").read_text(encoding="utf-8"))
_NODE: SchemaNode = Definitions({}).inline(_MERGES["schema"])


@pytest.mark.parametrize("case", _MERGES["merges"], ids=lambda case: case["name"])
def test_merges(case: Json) -> None:
    """What is applied is set by the rules of its place; the rest stays, and neither input is changed."""
    before = deepcopy(case)

    merged = merge(case.get("live", ABSENT), case.get("applied", ABSENT), _NODE)

    assert repr(merged) == repr(case["result"])  # true is no 1
    assert case == before


def test_what_is_not_reached_is_shared() -> None:
    """Only the containers along the changed paths are new; where nothing changes it is the object itself."""
    live: dict[str, Any] = {"labels": {"a": "1"}, "inner": {"a": "1"}, "named": [{"name": "a"}, {"name": "b"}]}

    merged = merge(live, {"labels": {"b": "2"}, "named": [{"name": "b", "value": "3"}]}, _NODE)

    assert merged["inner"] is live["inner"]
    assert merged["named"][0] is live["named"][0]
    assert merge(live, {"labels": {}, "named": [{"name": "a"}]}, _NODE) is live


@pytest.mark.parametrize(
    "case",
    [
        *_MERGES["refused"],
        {"applied": {"number": Foreign(Uint(3))}, "text": '.number: expected numeric (int or float), got "<uint>"'},
        {"applied": {"any": Foreign(Uint(3))}, "text": '.any: expected map, got "<uint>"'},
    ],
    ids=lambda case: repr(case["applied"]),
)
def test_refused_configurations(case: Json) -> None:
    """What the schema does not allow is refused in the API server's words, all of it at once."""
    with pytest.raises(MergeError) as caught:
        check(case["applied"], _NODE)

    assert str(caught.value) == case["text"]


def test_allowed_configuration() -> None:
    """Null is allowed anywhere but in a list, and a scalar of any kind where the schema leaves it open."""
    check({"text": None, "labels": None, "list": None, "either": 3, "set": [True, 1.5, "a"], "any": {"a": [1]}}, _NODE)


@pytest.mark.parametrize("case", _MERGES["atomics"], ids=lambda case: repr(case["applied"]))
def test_atomics(case: Json) -> None:
    """Lists and maps that would be replaced as a whole are found, whatever is in them."""
    assert list(atomics(case["applied"], _NODE)) == case["found"]


_OMITS = 'element 0: associative list with keys has an element that omits all key fields ["name"] '


def _env(*items: Any) -> Json:
    return {"spec": {"containers": [{"name": "a", "env": list(items)}]}}


@pytest.mark.parametrize(
    ("live", "applied", "text"),
    [
        ({"named": [{"value": "x"}]}, {"named": [{"name": "a"}]}, f".named: {_OMITS}"),
        (
            _env("odd"),
            _env({"name": "X"}),
            '.spec.containers[name="a"].env: element 0: associative list with keys may not have non-map elements',
        ),
    ],
)
def test_live_items_that_cannot_be_told_apart(live: Json, applied: Json, text: str) -> None:
    """A list whose items have no keys cannot be merged into; the error says where it is."""
    with pytest.raises(MergeError) as caught:
        merge(live, applied, _NODE if "named" in live else _PODS.root)

    assert str(caught.value).startswith(text)
