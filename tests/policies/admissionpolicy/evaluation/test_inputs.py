"""The variables of an evaluation are those that kube-apiserver gives its own policies."""

from __future__ import annotations

from support.policies.admissionpolicies import OBJECT, inputs

from policies.engine.request import GroupVersionKind


def test_names_hold_what_the_group_of_expressions_may_know() -> None:
    """Parameters always, the Namespace and the authorizer on demand."""
    namespace = {"metadata": {"name": "team", "managedFields": []}, "spec": {}, "status": {"phase": "Active"}}
    given = inputs(whole=lambda: namespace)
    whole = given.names({"x": 1}, namespace=True)
    bare = given.names(None, authorizer=False)
    assert (whole["object"], whole["oldObject"], whole["params"], whole["namespaceObject"]) == (
        OBJECT,
        None,
        {"x": 1},
        {"metadata": {"name": "team"}, "spec": {}, "status": {"phase": "Active"}},
    )
    assert sorted(set(whole) - set(bare)) == ["authorizer", "authorizer.requestResource"]
    assert (bare["params"], bare["namespaceObject"]) == (None, None)


def test_a_request_has_no_uid() -> None:
    """The API server's own engine does not know it; a webhook does, and must not show it."""
    assert inputs(request={"uid": "1234"}).names(None)["request"]["uid"] == ""


def test_the_kind_is_that_of_the_object() -> None:
    """Also where the request was for another version."""
    request = {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}, "requestKind": {"version": "v1beta1"}}
    assert inputs(request=request).kind == GroupVersionKind("apps", "v1", "Deployment")


def test_names_hold_nothing_of_the_request_for_whom_reads_nothing_of_it() -> None:
    """Neither `request` nor `authorizer`, which take longer to make than most policies to evaluate."""
    names = inputs().names({"x": 1}, request=False)
    rest = {"params": {"x": 1}, "namespaceObject": None, "variables": {}}
    assert dict(names) == {"object": OBJECT, "oldObject": None, **rest}
