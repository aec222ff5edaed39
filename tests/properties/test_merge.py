"""Whatever the object and the mutation: the object stays, what is not reached is shared, and twice is once."""

from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.admissionpolicy import schema
from policies.admissionpolicy.mutation import dispatcher, merge
from policies.admissionpolicy.mutation.dispatcher import (
    MutationError,
    OperationError,
    apply_configuration,
    apply_json_patch,
)
from policies.cel.patchtypes import JSONPatch, ObjectValue
from policies.cel.values import ABSENT, Optional
from policies.engine.request import GroupVersionKind
from properties.shapes import bounded, json_values, pods

_PODS = schema.known(GroupVersionKind("", "v1", "Pod"))
_NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
_WORDS = st.text("ab", max_size=2)


def _part(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


def _items(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    item = st.fixed_dictionaries({"name": _NAMES}, optional=fields)
    return st.lists(item, max_size=5, unique_by=lambda found: found["name"])


_LABELS = st.dictionaries(_NAMES, _WORDS, max_size=4)
_LIVE = st.fixed_dictionaries(
    {
        "apiVersion": st.just("v1"),
        "kind": st.just("Pod"),
        "metadata": _part(labels=_LABELS, finalizers=st.lists(_NAMES, max_size=5, unique=True)),
        "spec": _part(
            containers=_items(image=_WORDS, env=_items(value=_WORDS), command=st.lists(_WORDS)),
            nodeName=_WORDS,
            priority=st.integers(0, 9),
            nodeSelector=_LABELS,
        ),
    }
)
_APPLIED = _part(
    metadata=_part(labels=_LABELS, finalizers=st.lists(_NAMES, max_size=5, unique=True)),
    spec=_part(containers=_items(image=_WORDS, env=_items(value=_WORDS)), nodeName=_WORDS, priority=st.integers(0, 9)),
)
_STEPS = st.sampled_from(["metadata", "labels", "spec", "containers", "0", "1", "-1", "-", "a", "", "~1", "env"])
_PATHS = st.one_of(st.lists(_STEPS, max_size=4).map(lambda parts: "".join(f"/{part}" for part in parts)), _WORDS)
_OPERATIONS = st.builds(
    JSONPatch,
    st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "other"]),
    _PATHS,
    _PATHS,
    st.one_of(st.just(ABSENT), json_values),
)


@settings(bounded, max_examples=400)
@given(live=_LIVE, applied=_APPLIED)
def test_merging(live: Any, applied: Any) -> None:
    """The result has the configuration and each item of a list once; the rest and both inputs stay as they are."""
    before = deepcopy((live, applied))
    merge.check(applied, _PODS.root)
    merged = merge.merge(live, applied, _PODS.root)

    assert merge.merge(merged, applied, _PODS.root) == merged
    assert (live, applied) == before
    _contains(merged, applied)
    for section in ("metadata", "spec"):
        for key, value in live[section].items():
            if key not in applied.get(section, {}):
                assert merged[section][key] is value
    containers = applied.get("spec", {}).get("containers", [])
    reached = {item["name"] for item in containers}
    kept, found = (
        [id(item) for item in obj["spec"].get("containers", []) if item["name"] not in reached]
        for obj in (live, merged)
    )
    assert found == kept
    old, wanted, new = (obj.get("metadata", {}).get("finalizers", []) for obj in (live, applied, merged))
    assert sorted(new) == sorted({*old, *wanted})
    assert [item for item in new if item in wanted] == wanted
    assert [item for item in new if item not in wanted] == [item for item in old if item not in wanted]


def _contains(whole: Any, part: Any) -> None:
    if isinstance(part, dict):
        for key, value in part.items():
            _contains(whole[key], value)
    elif isinstance(part, list) and part and isinstance(part[0], dict):
        named = {item["name"]: item for item in whole}
        for item in part:
            _contains(named[item["name"]], item)
    elif isinstance(part, list):
        assert all(item in whole for item in part)
    else:
        assert whole == part


@given(obj=pods, fields=st.dictionaries(st.sampled_from(["metadata", "spec", "status", "x"]), json_values))
@bounded
def test_any_configuration_is_merged_or_refused(obj: Any, fields: Any) -> None:
    """Odd objects and odd configurations end in an object or a MutationError, and change no input."""
    if not isinstance(obj, dict):
        return
    value = ObjectValue("Object", {name: Optional(field) for name, field in fields.items()})
    before = deepcopy((obj, fields))

    try:
        result = apply_configuration(obj, value, _PODS)
    except MutationError:
        return
    finally:
        assert (obj, fields) == before

    assert apply_configuration(result, value, _PODS) == result


@given(document=st.one_of(_LIVE, json_values), patch=st.lists(_OPERATIONS, max_size=4))
@bounded
def test_operations_change_no_document(document: Any, patch: list[JSONPatch]) -> None:
    """Operations apply or fail with an OperationError; the document and the values stay as they are."""
    if not isinstance(document, dict):
        return
    before = deepcopy((document, [operation.value for operation in patch if operation.value is not ABSENT]))

    try:
        dispatcher.apply(document, patch)
    except OperationError:
        pass
    finally:
        assert before == (document, [operation.value for operation in patch if operation.value is not ABSENT])


@given(obj=_LIVE, path=_PATHS, value=json_values)
@bounded
def test_results_of_patches_are_read_or_refused(obj: Any, path: str, value: Any) -> None:
    """Whatever a patch puts anywhere: the result is an object of its kind, or a MutationError."""
    before = deepcopy(obj)

    try:
        result = apply_json_patch(obj, [JSONPatch("replace", path, "", value)], _PODS)
    except MutationError:
        return
    finally:
        assert obj == before

    assert result is not None
    assert apply_json_patch(result, [], _PODS) is result
