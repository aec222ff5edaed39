"""The variables of an evaluation are those that kube-apiserver gives its own policies."""

from __future__ import annotations

from support.policies.admissionpolicies import inputs

from policies.engine.request import GroupVersionKind


def test_a_request_has_no_uid() -> None:
    """The API server's own engine does not know it; a webhook does, and must not show it."""
    assert inputs(request={"uid": "1234"}).names(None)["request"]["uid"] == ""


def test_the_kind_is_that_of_the_object() -> None:
    """Also where the request was for another version."""
    request = {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}, "requestKind": {"version": "v1beta1"}}
    assert inputs(request=request).kind == GroupVersionKind("apps", "v1", "Deployment")
