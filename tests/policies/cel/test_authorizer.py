"""The authorizer library; expected values, messages and costs are those of kube-apiserver 1.36's own."""

from collections.abc import Mapping
from typing import Any

import pytest

from policies.cel.errors import CelError
from policies.cel.function import Function, Overload
from policies.cel.library.authorizer import (
    LIBRARY,
    Authorizer,
    Check,
    CheckAnswer,
    ResourceCheck,
    Table,
    User,
    answer_of,
    service_account,
    subject_access_review,
)
from policies.cel.values import type_of
from policies.engine.interruption import Missing
from policies.engine.match import SelectorRequirement

_ALICE = User("alice", "42", ("dev",), (("scopes", ("read", "write")),))
_FUNCTIONS = {function.name: function for function in LIBRARY.functions}
_DENIED = CheckAnswer(allowed=False, reason="no rule")
_CREATE_PODS = Check(user=_ALICE, verb="create", resource="pods", namespace="team-a")


class _Rules:
    """Answers as the reference's test double, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Check] = []

    def answer(self, check: Check) -> CheckAnswer:
        self.asked.append(check)
        if check.user.name == "alice" and check.namespace == "team-a":
            return CheckAnswer(allowed=True, reason="alice owns team-a")
        if (check.path, check.verb) == ("/healthz", "get"):
            return CheckAnswer(allowed=True, reason="health")
        if check.user.name == "system:serviceaccount:team-a:builder" and check.verb == "create":
            return CheckAnswer(allowed=True, reason="sa")
        return _DENIED


def _overload(function: Function, target: object) -> Overload:
    return next(o for o in function.overloads if o.parameters[0] == type_of(target))


def _follow(value: Any, steps: str | tuple[tuple[str, ...], ...]) -> Any:
    """The value after a chain of calls: `(("group", "apps"), ("resource", "pods"))`."""
    for name, *arguments in [tuple(step.split()) for step in steps.split(".")] if isinstance(steps, str) else steps:
        call = _overload(_FUNCTIONS[name], value).call
        assert call is not None
        value = call(value, *arguments)
    return value


def _alice(rules: _Rules | Table | None = None) -> Authorizer:
    return Authorizer(_ALICE, rules or _Rules())


def _pods(rules: _Rules | Table | None = None) -> ResourceCheck:
    return ResourceCheck(_alice(rules), "", "pods", "status", "team-a", "web-0")


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        pytest.param((("path", ""),), "path must not be empty", id="path"),
        pytest.param((("path", "\u00a0\u2003\u3000"),), "path must not be empty", id="white-path"),
        pytest.param((("group", ""), ("resource", " \t")), "resource must not be empty", id="resource"),
        pytest.param((("serviceAccount", "a.b", "x"),), "Invalid service account namespace", id="account-namespace"),
        pytest.param((("serviceAccount", "a", "x\n"),), "Invalid service account name", id="account-name"),
        pytest.param((("serviceAccount", "A", "X"),), "Invalid service account name", id="name-first"),
    ],
)
def test_refused_arguments(steps: tuple[tuple[str, ...], ...], message: str) -> None:
    """What cannot be asked fails with the reference's message."""
    with pytest.raises(CelError) as raised:
        _follow(_alice(), steps)
    assert raised.value.message == message


def test_checks() -> None:
    """An authorizer sees user, verb and every attribute that was set, selectors parsed."""
    rules = _Rules()
    _follow(_alice(rules), "path /healthz.check get")
    _follow(_alice(rules), "serviceAccount a b.group apps.resource deployments.check list")
    _follow(_pods(rules), "name web-1.fieldSelector a=b.labelSelector !a.check list")
    _follow(_pods(rules), "subresource log.fieldSelector a=b.fieldSelector a.check get")
    group_names = ("system:serviceaccounts", "system:serviceaccounts:a")
    assert rules.asked == [
        Check(user=_ALICE, verb="get", path="/healthz"),
        Check(
            user=User("system:serviceaccount:a:b", groups=group_names),
            verb="list",
            api_group="apps",
            resource="deployments",
        ),
        Check(
            user=_ALICE,
            verb="list",
            resource="pods",
            subresource="status",
            namespace="team-a",
            name="web-1",
            field_selector=(SelectorRequirement("a", "In", ("b",)),),
            label_selector=(SelectorRequirement("a", "DoesNotExist"),),
        ),
        Check(
            user=_ALICE,
            verb="get",
            resource="pods",
            subresource="log",
            namespace="team-a",
            name="web-0",
        ),
    ]


def test_steps_leave_their_target_alone() -> None:
    """A check that was built on is still what it was."""
    rules = _Rules()
    pods = _pods(rules)
    _follow(pods, "namespace other")
    _follow(pods, "check get")
    assert [check.namespace for check in rules.asked] == ["team-a"]


_STATUS = Check(user=_ALICE, verb="get", resource="pods", subresource="status", namespace="team-a", name="web-0")


def test_unanswered_check() -> None:
    """A table raises what it does not hold, as something that no operator absorbs, and the check finds its answer."""
    with pytest.raises(Missing) as raised:
        _follow(_pods(Table({})), "check get")
    assert not isinstance(raised.value, CelError)
    assert raised.value.key == _STATUS
    answered = Table({_STATUS: _DENIED})
    assert _follow(_pods(answered), "check get.reason") == "no rule"


@pytest.mark.parametrize(
    ("check", "spec"),
    [
        pytest.param(
            Check(user=_ALICE, verb="get", path="/healthz"),
            {
                "nonResourceAttributes": {"path": "/healthz", "verb": "get"},
                "user": "alice",
                "uid": "42",
                "groups": ["dev"],
                "extra": {"scopes": ["read", "write"]},
            },
            id="path",
        ),
        pytest.param(
            Check(user=service_account("a", "b"), verb="*", resource="pods"),
            {
                "resourceAttributes": {"verb": "*", "version": "*", "resource": "pods"},
                "user": "system:serviceaccount:a:b",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:a"],
            },
            id="empty-fields-left-out",
        ),
    ],
)
def test_subject_access_review(check: Check, spec: Mapping[str, object]) -> None:
    """A check becomes the review that the API server's webhook authorizer would send."""
    assert subject_access_review(check) == spec


def test_subject_access_review_with_selectors() -> None:
    """A review holds the requirements that it has operators for, and none of a selector with an error."""
    rules = _Rules()
    target = _follow(_pods(rules), (("labelSelector", "a in (c,b),!d,e>5,f"), ("fieldSelector", "a=1,b!=2,=x")))
    _follow(target, "check list")
    _follow(target, "labelSelector !.fieldSelector x.check list")
    reviews = [subject_access_review(check)["resourceAttributes"] for check in rules.asked]
    attributes = {
        "namespace": "team-a",
        "verb": "list",
        "version": "*",
        "resource": "pods",
        "subresource": "status",
        "name": "web-0",
    }
    fields = [
        {"key": "a", "operator": "In", "values": ["1"]},
        {"key": "b", "operator": "NotIn", "values": ["2"]},
    ]
    labels = [
        {"key": "a", "operator": "In", "values": ["b", "c"]},
        {"key": "d", "operator": "DoesNotExist"},
        {"key": "f", "operator": "Exists"},
    ]
    with_selectors = {
        **attributes,
        "fieldSelector": {"requirements": fields},
        "labelSelector": {"requirements": labels},
    }
    assert reviews == [with_selectors, attributes]


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        pytest.param(
            {"allowed": True, "reason": "RBAC: allowed"},
            CheckAnswer(allowed=True, reason="RBAC: allowed"),
            id="allowed",
        ),
        pytest.param({"allowed": False}, CheckAnswer(allowed=False), id="no-opinion"),
        pytest.param(
            {"allowed": False, "denied": True, "reason": "r"}, CheckAnswer(allowed=False, reason="r"), id="denied"
        ),
        pytest.param({"allowed": True, "evaluationError": "e"}, CheckAnswer(allowed=True, error="e"), id="error"),
        pytest.param({"allowed": False, "evaluationError": ""}, CheckAnswer(allowed=False), id="empty-error"),
        pytest.param(
            {"allowed": True, "denied": True},
            CheckAnswer(allowed=False, error="webhook subject access review returned both allow and deny response"),
            id="both",
        ),
        pytest.param({}, CheckAnswer(allowed=False), id="empty"),
    ],
)
def test_answer_of(status: Mapping[str, object], answer: CheckAnswer) -> None:
    """A review's status becomes the decision and the error that the API server's authorizers gave."""
    assert answer_of(status) == answer


def test_asking_for_pods() -> None:
    """Equal checks are the same key, however they were built."""
    table = Table({_CREATE_PODS: CheckAnswer(allowed=True)})
    steps = (("group", ""), ("resource", "pods"), ("name", ""), ("namespace", "team-a"), ("check", "create"))
    assert _follow(_alice(table), (*steps, ("allowed",))) is True
