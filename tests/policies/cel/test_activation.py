from __future__ import annotations

from typing import Any

import pytest

from policies.cel.activation import activation, requester, shown_namespace, shown_request
from policies.cel.kubernetes import admission
from policies.cel.library.authorizer import Check, CheckAnswer, Table, User
from policies.cel.program import NO_VARIABLES, compile_expression

EMPTY: dict[str, Any] = {
    "uid": "",
    "kind": {"group": "", "version": "", "kind": ""},
    "resource": {"group": "", "version": "", "resource": ""},
    "operation": "",
    "userInfo": {},
    "object": None,
    "oldObject": None,
    "options": None,
}
REQUEST: dict[str, Any] = {
    "uid": "1",
    "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
    "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
    "requestKind": {"version": "v1", "kind": "Scale"},
    "subResource": "scale",
    "name": "web",
    "namespace": "team",
    "operation": "UPDATE",
    "userInfo": {"username": "jane", "uid": "", "groups": ["dev"], "extra": {"a": ["b"]}},
    "object": {"a": 1},
    "dryRun": False,
    "options": {"kind": "UpdateOptions"},
}


def test_an_empty_request() -> None:
    """What Go always writes is there and empty; what it omits when empty is not."""
    assert shown_request({}) == EMPTY


def test_a_request() -> None:
    """Fields are shown as Go writes them, kinds and resources filled up; the objects are not shown."""
    assert shown_request(REQUEST) == {
        "uid": "1",
        "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "requestKind": {"group": "", "version": "v1", "kind": "Scale"},
        "subResource": "scale",
        "name": "web",
        "namespace": "team",
        "operation": "UPDATE",
        "userInfo": {"username": "jane", "groups": ["dev"], "extra": {"a": ["b"]}},
        "object": None,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "UpdateOptions"},
    }


@pytest.mark.parametrize("nothing", [None, {}])
def test_parts_that_are_null(nothing: Any) -> None:
    """Null parts are as missing ones."""
    names = ("kind", "resource", "requestKind", "requestResource", "userInfo", "dryRun", "subResource")

    assert shown_request(dict.fromkeys(names, nothing) | {"dryRun": None}) == EMPTY


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


def test_requester() -> None:
    """Who asks, with groups and extra in a form that does not change."""
    assert requester(REQUEST) == User("jane", "", ("dev",), (("a", ("b",)),))
    assert requester({}) == User("", "", (), ())
    assert requester({"userInfo": {"groups": None, "extra": None}}) == User("", "", (), ())


def test_all_variables() -> None:
    """Each variable that a policy may speak of is there, null where nothing was given."""
    found = activation(REQUEST, Table({}), object={"a": 1})
    given = activation(
        REQUEST, Table({}), object=None, old_object={"b": 1}, params={"c": 1}, namespace={"metadata": {"name": "team"}}
    )

    assert {*found, "variables"} == set(admission().variables)
    assert [found[name] for name in ("object", "oldObject", "params", "namespaceObject")] == [
        {"a": 1},
        None,
        None,
        None,
    ]
    assert [given[name] for name in ("object", "oldObject", "params")] == [None, {"b": 1}, {"c": 1}]
    assert given["namespaceObject"]["metadata"] == {"name": "team"}


def test_the_request_is_not_changed() -> None:
    """What is shown is made anew: the request stays as it came."""
    before = repr(REQUEST)
    shown = shown_request(REQUEST)
    shown["kind"]["group"] = "changed"

    assert repr(REQUEST) == before


def test_the_resource_of_the_request() -> None:
    """`authorizer.requestResource` asks about the resource, subresource, namespace and name of the request."""
    check = Check(
        user=requester(REQUEST),
        verb="update",
        api_group="apps",
        resource="deployments",
        subresource="scale",
        namespace="team",
        name="web",
    )
    names = activation(REQUEST, Table({check: CheckAnswer(allowed=True)}), object=None)
    program = compile_expression("authorizer.requestResource.check('update').allowed()", admission())

    assert program.evaluate({**names, "variables": NO_VARIABLES}).value is True
