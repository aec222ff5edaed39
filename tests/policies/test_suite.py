"""Reading suites: what a document says becomes cases, and everything that is wrong with it is said at once."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from policies.suite import Case, CaseNamespace, CaseUser, Expectation, Suite, SuiteError, merge_patch, read

POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web"}}}
DOCUMENT: dict[str, Any] = {
    "name": "example",
    "policies": ["policy.yaml"],
    "objects": {"pod": POD},
    "cases": [{"name": "a Pod", "object": "pod", "expect": "allowed"}],
}
_WRONG = yaml.safe_load(Path(__file__).with_name("suite.yaml").read_text(encoding="utf-8"))


def _with(case: dict[str, Any], /, **fields: Any) -> dict[str, Any]:
    """The document with one case of these fields, and other fields of its own."""
    return {**DOCUMENT, "cases": [DOCUMENT["cases"][0] | case], **fields}


def _problems(document: Any) -> tuple[str, ...]:
    with pytest.raises(SuiteError) as raised:
        read(document)
    assert str(raised.value) == "\n".join(raised.value.problems)
    return raised.value.problems


def test_a_short_suite_has_defaults() -> None:
    """Without more, alice creates the object in the namespace team-a, with the parameters that the policy has."""
    case = Case(name="a Pod", operation="CREATE", object=POD, expect=Expectation(verdict="allowed"))

    assert read(DOCUMENT) == Suite(name="example", policies=("policy.yaml",), cases=(case,))
    assert (case.user, case.namespace, case.params) == (CaseUser(name="alice"), CaseNamespace(name="team-a"), {})


def test_a_case_overrides_what_the_suite_says() -> None:
    """User and namespace of a case replace the suite's; parameters are added to them key by key."""
    document = _with(
        {"user": {"name": "bob", "groups": ["dev"]}, "params": {"p": {"b": "3"}, "q": {"c": "4"}}},
        user={"name": "eve"},
        namespace={"name": "team-b", "labels": {"org": "1"}},
        params={"p": {"a": "1", "b": "2"}},
    )

    (case,) = read(document).cases

    assert case.user == CaseUser(name="bob", groups=("dev",))
    assert case.namespace == CaseNamespace(name="team-b", labels={"org": "1"})
    assert case.params == {"p": {"a": "1", "b": "3"}, "q": {"c": "4"}}


def test_objects_are_patched_and_stay_as_they_are() -> None:
    """A case's patch makes an object of its own: maps merge, null removes, lists are replaced."""
    before = copy.deepcopy(DOCUMENT)
    document = _with({"patch": {"metadata": {"labels": {"app": None, "tier": "a"}}, "spec": {"containers": []}}})

    (case,) = read(document).cases

    assert case.object == {**POD, "metadata": {"name": "web", "labels": {"tier": "a"}}, "spec": {"containers": []}}
    assert before == DOCUMENT


@pytest.mark.parametrize(
    ("case", "operation"),
    [
        ({"object": "pod"}, "CREATE"),
        ({"object": "pod", "oldObject": "pod"}, "UPDATE"),
        ({"oldObject": "pod"}, "DELETE"),
        ({"object": "pod", "operation": "CONNECT"}, "CONNECT"),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(value),
)
def test_the_operation_is_what_the_objects_tell(case: dict[str, Any], operation: str) -> None:
    """CREATE, UPDATE or DELETE need not be said; what is said counts."""
    document = {**DOCUMENT, "cases": [{"name": "a case", "expect": "allowed", **case}]}

    assert read(document).cases[0].operation == operation


def test_an_object_may_be_in_a_file_or_in_the_case() -> None:
    """A case may hold its object, or name a file, which whoever reads files finds."""
    inline = {**POD, "kind": "Secret"}
    cases = [{"name": "a file", "object": {"file": "pod.yaml"}, "oldObject": inline, "expect": "allowed"}]

    (case,) = read({**DOCUMENT, "cases": cases}, {"pod.yaml": POD}.__getitem__).cases

    assert (case.object, case.old_object) == (POD, inline)


def test_what_is_expected() -> None:
    """What is expected is kept as it is written; `derived` asks for what the service makes of pod templates."""
    expected = {"expect": "denied", "messages": ["no"], "warnings": ["hm"], "audit": ["well"]}
    (case,) = read(_with({**expected, "derived": True})).cases

    assert case.expect == Expectation(verdict="denied", messages=("no",), warnings=("hm",), audit=("well",))
    assert case.derived


@pytest.mark.parametrize(
    ("patched", "expected"),
    [
        ({}, None),
        ({"metadata": {"labels": {"app": "web"}}}, None),
        (
            {"metadata": {"labels": {"app": None}}, "spec": {}},
            {**POD, "metadata": {"name": "web", "labels": {}}, "spec": {}},
        ),
    ],
    ids=["nothing", "the-same", "a-change"],
)
def test_what_becomes_of_the_object_is_a_patch_on_it(patched: Any, expected: Any) -> None:
    """The whole object is expected as the case's patch leaves it; without a change, that it stays as it is."""
    (case,) = read(_with({"patched": patched})).cases

    assert (case.object, case.expect) == (POD, Expectation(verdict="allowed", patched=expected))


@pytest.mark.parametrize("row", _WRONG, ids=lambda row: row["problems"][0])
def test_what_is_wrong_is_said_with_its_path(row: dict[str, Any]) -> None:
    """Each fault is named by the path of what is wrong, and by what belongs there, all of them at once."""
    assert list(_problems(_with(row.get("case", {}), **row.get("suite", {})))) == row["problems"]


def test_a_document_that_is_no_map() -> None:
    """A suite that is nothing is no suite."""
    assert _problems(None)[0] == "the suite: a map is expected here"


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
    ids=str,
)
def test_patches_are_those_of_the_rfc(target: Any, patch: Any, result: Any) -> None:
    """The examples of RFC 7386, appendix A."""
    assert merge_patch(target, patch) == result
