from __future__ import annotations

from typing import Any

import pytest
from support.cel.answers import Table

from policies.cel.activation import activation, requester, shown_namespace, shown_request
from policies.cel.kubernetes import admission
from policies.cel.library.authorizer import User

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
    bare = dict.fromkeys(names, nothing) | {"dryRun": None}

    assert shown_request(bare) == shown_request({}) == EMPTY
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
    given = activation(REQUEST, Table({}), object=None, old_object={"b": 1}, params={"c": 1})
    names = ("object", "oldObject", "params", "namespaceObject")

    assert {*given, "variables"} == set(admission().variables)
    assert [given[name] for name in names] == [None, {"b": 1}, {"c": 1}, None]
