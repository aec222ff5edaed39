"""What an expression is given: the request, and the authorizer, whose words and costs tests/conformance has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.cel.answers import Table

from policies.cel.activation import activation, requester, shown_namespace, shown_request
from policies.cel.kubernetes import admission
from policies.cel.library.authorizer import (
    Check,
    CheckAnswer,
    User,
    answer_of,
    field_requirements,
    label_requirements,
    service_account,
    subject_access_review,
)
from policies.cel.program import NO_VARIABLES, Evaluation, compile_expression
from policies.engine.interruption import Missing
from policies.engine.match import SelectorRequirement

_ALICE = User("alice", "42", ("dev",), (("scopes", ("read", "write")),))
_REQUEST = {
    "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
    "subResource": "scale",
    "namespace": "team-a",
    "name": "web",
    "userInfo": {"username": "alice", "uid": "42", "groups": ["dev"], "extra": {"scopes": ["read", "write"]}},
}


def _evaluated(text: str, answers: Mapping[Check, CheckAnswer]) -> Evaluation:
    names = activation(_REQUEST, Table(answers), object=None)
    return compile_expression(text, admission()).evaluate({**names, "variables": NO_VARIABLES})


def _asked(text: str) -> Check:
    """The check that an expression asks about; no operator absorbs that it has no answer yet."""
    with pytest.raises(Missing) as raised:
        _evaluated(f"{text}.allowed() || true", {})
    key = raised.value.key
    assert isinstance(key, Check)
    return key


def _check(verb: str, **fields: Any) -> Check:
    return Check(**{"user": _ALICE, "verb": verb, **fields})


_SCALE = {"api_group": "apps", "resource": "deployments", "subresource": "scale", "namespace": "team-a", "name": "web"}


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("authorizer.path('/healthz').check('get')", _check("get", path="/healthz")),
        (
            "authorizer.serviceAccount('a', 'b').group('').resource('pods').check('list')",
            _check("list", user=service_account("a", "b"), resource="pods"),
        ),
        ("authorizer.requestResource.check('update')", _check("update", **_SCALE)),
        (
            "authorizer.requestResource.subresource('status').namespace('b').name('c').check('get')",
            _check("get", **{**_SCALE, "subresource": "status", "namespace": "b", "name": "c"}),
        ),
        (
            "authorizer.requestResource.fieldSelector('a=b').labelSelector('!a').check('list')",
            _check(
                "list",
                **_SCALE,
                field_selector=(SelectorRequirement("a", "In", ("b",)),),
                label_selector=(SelectorRequirement("a", "DoesNotExist"),),
            ),
        ),
        ("authorizer.requestResource.fieldSelector('a=b').fieldSelector('a').check('get')", _check("get", **_SCALE)),
    ],
)
def test_checks(text: str, check: Check) -> None:
    """An authorizer is asked about user, verb and every attribute that was set, selectors parsed."""
    assert _asked(text) == check


def test_equal_checks_have_one_answer() -> None:
    """A check is found however it was built, and one that was built on is still what it was."""
    answers = {_check("get", **_SCALE): CheckAnswer(allowed=True, reason="a rule")}
    texts = (
        "authorizer.requestResource.name('x').name('web').check('get').reason()",
        "[authorizer.requestResource].map(r, [r.namespace('b'), r])[0][1].check('get').reason()",
    )

    assert [_evaluated(text, answers).value for text in texts] == ["a rule"] * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (r"authorizer.path('\u00a0\u2003\u3000')", "path must not be empty"),
        (r"authorizer.group('').resource(' \t')", "resource must not be empty"),
        (r"authorizer.serviceAccount('a', 'x\n')", "Invalid service account name"),
    ],
)
def test_refused_arguments(text: str, message: str) -> None:
    """What cannot be asked fails with the reference's message."""
    assert str(_evaluated(text, {}).error) == message


def test_subject_access_reviews() -> None:
    """A check becomes the API server's review: without what is empty, and without selectors that have an error."""
    alice = {"user": "alice", "uid": "42", "groups": ["dev"], "extra": {"scopes": ["read", "write"]}}
    scale = {
        "namespace": "team-a",
        "verb": "list",
        "group": "apps",
        "version": "*",
        "resource": "deployments",
        "subresource": "scale",
        "name": "web",
    }
    fields = [{"key": "a", "operator": "In", "values": ["1"]}, {"key": "b", "operator": "NotIn", "values": ["2"]}]
    labels = [
        {"key": "a", "operator": "In", "values": ["b", "c"]},
        {"key": "d", "operator": "DoesNotExist"},
        {"key": "f", "operator": "Exists"},
    ]
    selecting = {**scale, "fieldSelector": {"requirements": fields}, "labelSelector": {"requirements": labels}}
    reviews = {
        "authorizer.path('/healthz').check('get')": {
            "nonResourceAttributes": {"path": "/healthz", "verb": "get"},
            **alice,
        },
        "authorizer.serviceAccount('a', 'b').group('').resource('pods').check('*')": {
            "resourceAttributes": {"verb": "*", "version": "*", "resource": "pods"},
            "user": "system:serviceaccount:a:b",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:a"],
        },
        "authorizer.requestResource.labelSelector('a in (c,b),!d,e>5,f').fieldSelector('a=1,b!=2,=x').check('list')": {
            "resourceAttributes": selecting,
            **alice,
        },
        "authorizer.requestResource.labelSelector('!').fieldSelector('x').check('list')": {
            "resourceAttributes": scale,
            **alice,
        },
    }

    assert {text: subject_access_review(_asked(text)) for text in reviews} == reviews


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        ({"allowed": True, "reason": "RBAC: allowed"}, CheckAnswer(allowed=True, reason="RBAC: allowed")),
        ({"allowed": False, "denied": True, "reason": "r"}, CheckAnswer(allowed=False, reason="r")),
        ({"allowed": True, "evaluationError": "e"}, CheckAnswer(allowed=True, error="e")),
        ({"allowed": False, "evaluationError": ""}, CheckAnswer(allowed=False)),
        (
            {"allowed": True, "denied": True},
            CheckAnswer(allowed=False, error="webhook subject access review returned both allow and deny response"),
        ),
        ({}, CheckAnswer(allowed=False)),
    ],
    ids=["allowed", "denied", "error", "empty error", "both", "empty"],
)
def test_answer_of(status: Mapping[str, object], answer: CheckAnswer) -> None:
    """A review's status becomes the decision and the error that the API server's authorizers gave."""
    assert answer_of(status) == answer


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("spec.nodeName=a", "spec.nodeName In a"),
        ("a==b", "a In b"),
        ("b!=1,a=2", "a In 2; b NotIn 1"),
        ("a=", "a In "),
        ("=x,=,a=b,,", "a In b"),
        (r"a=b\,c\=d\\", "a In b,c=d\\"),
        (r"a\,b=c", r"a\,b In c"),
        *((text, "") for text in ("", "a", "b=c,a", "a=b=c", r"a=b\x", "a=b\\")),
    ],
)
def test_field_selector(text: str, expected: str) -> None:
    """The requirements are those of k8s.io/apimachinery 0.36.6, in its order, without those that have no field."""
    shown = [f"{one.key} {one.operator} {','.join(one.values)}" for one in field_requirements(text)]
    assert "; ".join(shown) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", "a Exists"),
        ("! a", "a DoesNotExist"),
        ("a=b,a==c", "a In b; a In c"),
        ("b!=c,a=", "a In ; b NotIn c"),
        ("a in (c,b,c)", "a In b|c"),
        ("a notin(x,)", "a NotIn |x"),
        ("a in (,,x)", "a In |x"),
        ("a in ()", "a In "),
        ("in in (in,notin)", "in In in|notin"),
        (" a > 5 ,\tb<6,c", "c Exists"),
        ("a.b/C_d.e-f=x", "a.b/C_d.e-f In x"),
        (f"a>{60 * '0'}7,b", "b Exists"),
        *((text, "") for text in ("", "a,", ",a", "a=b c", "!a=b", "!!a", "a b", "a=(", "a in b", "a in (=)")),
        *((text, "") for text in ("a in (b c)", "a in (b,(", "-a", "X/", "b,a>x", "b,a>-5", 'a in ("\x01é,b-)')),
        *((text, "") for text in (f"a={64 * 'y'}", f"b,a>{10_000 * '9'}")),
    ],
)
def test_label_selector(text: str, expected: str) -> None:
    """The requirements are the reference's, by key, each value once, without comparisons of numbers."""
    shown = [f"{one.key} {one.operator} {'|'.join(one.values)}" for one in label_requirements(text)]
    assert "; ".join(shown).replace("Exists ", "Exists").replace("Exist ", "Exist") == expected


def test_a_request() -> None:
    """Fields are shown as Go writes them, kinds and resources filled up; the objects are not shown."""
    shown: dict[str, Any] = {
        **_REQUEST,
        "uid": "1",
        "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
        "requestKind": {"group": "", "version": "v1", "kind": "Scale"},
        "operation": "UPDATE",
        "userInfo": {"username": "jane", "groups": ["dev"], "extra": {"a": ["b"]}},
        "object": None,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "UpdateOptions"},
    }
    given = {**shown, "requestKind": {"version": "v1", "kind": "Scale"}, "object": {"a": 1}}
    given["userInfo"] = {**shown["userInfo"], "uid": ""}
    del given["oldObject"]

    assert shown_request(given) == shown


_EMPTY: dict[str, Any] = {
    "uid": "",
    "kind": {"group": "", "version": "", "kind": ""},
    "resource": {"group": "", "version": "", "resource": ""},
    "operation": "",
    "userInfo": {},
    "object": None,
    "oldObject": None,
    "options": None,
}


@pytest.mark.parametrize("nothing", [None, {}])
def test_parts_that_are_null(nothing: Any) -> None:
    """Null parts are as missing ones."""
    names = ("kind", "resource", "requestKind", "requestResource", "userInfo", "dryRun", "subResource")
    bare = dict.fromkeys(names, nothing) | {"dryRun": None}

    assert shown_request(bare) == shown_request({}) == _EMPTY
    assert requester(bare) == requester({"userInfo": {"groups": None, "extra": None}}) == User("")


def test_namespaces() -> None:
    """Of a Namespace only some fields are shown, and of those only what is not empty; zero seconds stay."""
    given = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "team",
            "uid": "",
            "labels": {"a": "b"},
            "annotations": {},
            "managedFields": [{}],
            "deletionGracePeriodSeconds": 0,
            "ownerReferences": [{}],
        },
        "spec": {"finalizers": ["kubernetes"], "other": 1},
        "status": {"phase": "Active", "conditions": []},
    }

    assert shown_namespace(given) == {
        "metadata": {"name": "team", "labels": {"a": "b"}, "deletionGracePeriodSeconds": 0},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }
    assert shown_namespace({}) == {"metadata": {}, "spec": {}, "status": {}}
    assert shown_namespace(None) is None


def test_all_variables() -> None:
    """Each variable that a policy may speak of is there, null where nothing was given."""
    given = activation(_REQUEST, Table({}), object=None, old_object={"b": 1}, params={"c": 1})
    names = ("object", "oldObject", "params", "namespaceObject")

    assert {*given, "variables"} == set(admission().variables)
    assert [given[name] for name in names] == [None, {"b": 1}, {"c": 1}, None]
