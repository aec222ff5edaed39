"""Reading suites: what a document says becomes cases, and everything that is wrong with it is said at once."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from policies.suite import Case, CaseNamespace, CaseUser, Expectation, Suite, SuiteError, merge_patch, read

POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web"}}}
DOCUMENT: dict[str, Any] = {
    "name": "example",
    "policies": ["policy.yaml"],
    "objects": {"pod": POD},
    "cases": [{"name": "a Pod", "object": "pod", "expect": "allowed"}],
}


def _with(case: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The document with one case of these fields, and other fields of its own."""
    return {**DOCUMENT, "cases": [{**DOCUMENT["cases"][0], **case}], **fields}


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


def test_a_refusal_has_messages() -> None:
    """What is expected is kept as it is written."""
    (case,) = read(_with({"expect": "denied", "messages": ["no"], "warnings": ["hm"], "audit": ["well"]})).cases

    assert case.expect == Expectation(verdict="denied", messages=("no",), warnings=("hm",), audit=("well",))


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


def test_a_case_is_judged_natively_unless_it_says_otherwise() -> None:
    """Only `derived: true` asks for what the service makes of pod templates."""
    assert [read(_with(fields)).cases[0].derived for fields in ({}, {"derived": False}, {"derived": True})] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("document", "problems"),
    [
        (None, ("the suite: a map is expected here", "cases: a list is expected here, with at least one item")),
        ({**DOCUMENT, "policies": []}, ("policies: a list is expected here, with at least one item",)),
        ({**DOCUMENT, "name": 5}, ("name: a string is expected here",)),
        ({**DOCUMENT, "case": []}, ("case: there is no such field; did you mean 'cases'?",)),
        (_with({"object": "pot"}), ("cases[0].object: there is no object 'pot'; did you mean 'pod'?",)),
        (
            _with({"object": {"kind": "Pod"}}),
            ("cases[0].object: an object needs apiVersion", "cases[0].object: an object needs metadata"),
        ),
        (
            _with({"object": {"file": "a.yaml"}}),
            ("cases[0].object.file: 'a.yaml' is in a file of its own, and files are not read here",),
        ),
        (_with({"oldPatch": {}}), ("cases[0].oldPatch: there is no oldObject to patch",)),
        (_with({"operation": "PATCH"}), ("cases[0].operation: 'PATCH' is not one of CREATE, UPDATE, DELETE, CONNECT",)),
        (_with({"expect": "deny"}), ("cases[0].expect: 'deny' is neither allowed nor denied",)),
        (_with({"expect": "denied"}), ("cases[0].messages: a case that is denied says with which messages",)),
        (
            _with({"messages": ["no"]}),
            ("cases[0].messages: a case that is allowed has no messages; it may have warnings",),
        ),
        (
            _with({"expect": "denied", "messages": ["no"], "patched": {}}),
            ("cases[0].patched: a case that is denied changes nothing",),
        ),
        (
            {**DOCUMENT, "cases": [{"name": "gone", "oldObject": "pod", "expect": "allowed", "patched": {}}]},
            ("cases[0].patched: there is no object to change",),
        ),
        (_with({"patched": []}), ("cases[0].patched: a map is expected here",)),
        (_with({"derived": "yes"}), ("cases[0].derived: true or false is expected here",)),
        (_with({"warnings": "hm"}), ("cases[0].warnings: a list of strings is expected here",)),
        (_with({"params": {"p": {"n": 5}}}), ("cases[0].params.p.n: 5 is not a string: write it in quotes",)),
        (_with({"user": {"groups": []}}), ("cases[0].user.name: a string is expected here",)),
        (
            _with({"namespace": {"label": {}}}),
            ("cases[0].namespace.label: there is no such field; did you mean 'labels'?",),
        ),
        ({**DOCUMENT, "cases": DOCUMENT["cases"] * 2}, ("cases: 'a Pod' is the name of more than one case",)),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_with_its_path(document: Any, problems: tuple[str, ...]) -> None:
    """Each fault is named by the path of what is wrong, and by what belongs there."""
    found = _problems(document)

    assert {*problems} <= {*found}
    assert found == problems or document is None


def test_everything_wrong_is_said_at_once() -> None:
    """One run shows all that there is to repair."""
    document = _with({"object": "pot", "expect": "maybe", "user": 5}, colour="red")

    assert _problems(document) == (
        "colour: there is no such field",
        "cases[0].object: there is no object 'pot'; did you mean 'pod'?",
        "cases[0].user: a map is expected here",
        "cases[0].user.name: a string is expected here",
        "cases[0].expect: 'maybe' is neither allowed nor denied",
    )


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
