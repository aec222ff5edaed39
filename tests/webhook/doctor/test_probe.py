"""What a reserved label proves."""

from __future__ import annotations

from datetime import date

import pytest

from policies.engine.request import UserInfo
from webhook.configuration import rules
from webhook.doctor.connection import check_probe, is_answered, is_refused
from webhook.doctor.observation import Diagnosis, Probe, Read, Unread

from .findings import FORBIDDEN, settings

_WHERE = "ConfigMap with a reserved label, dry run in namespace default"
_DENIED = 'the API server refused it (403: admission webhook "labels.cks-admission.dev" denied the request: no)'
_FAILED = 'the API server refused it (500: failed calling webhook "labels.cks-admission.dev": x509: bad)'
_RBAC = "the API server refused it (403: configmaps is forbidden)"
_OTHERS = 'the API server refused it (403: admission webhook "guard.example.org" denied the request: no)'
_TODAY = date(2026, 3, 1)


@pytest.mark.parametrize(
    ("status", "message", "wanted", "expected"),
    [
        pytest.param(
            403,
            _DENIED,
            True,
            ("ok", "the service refused it: the API server calls the service and gets its answer", ""),
            id="refused",
        ),
        pytest.param(
            500,
            _FAILED,
            True,
            (
                "problem",
                f"the API server could not call the service: {_FAILED}",
                "see the findings about the address and the certificate",
            ),
            id="not reached",
        ),
        pytest.param(
            201,
            "",
            True,
            (
                "problem",
                "it was admitted: the API server did not call the service",
                "see the findings about the registration; after a change the API server needs a few seconds",
            ),
            id="admitted",
        ),
        pytest.param(
            201,
            "",
            False,
            (
                "unknown",
                "it was admitted, as the settings allow for this user and Namespace, so it proves nothing",
                "use an account that is not exempt from the labels rule",
            ),
            id="rightly admitted",
        ),
        pytest.param(
            201,
            "",
            Unread("the settings are wrong"),
            (
                "unknown",
                "it was admitted, but whether that is correct is unknown: the settings are wrong",
                "see the findings about policies and rights",
            ),
            id="nobody knows",
        ),
        pytest.param(
            403,
            _RBAC,
            True,
            (
                "unknown",
                "the current account may not create configmaps",
                "use an account that may create configmaps there, or choose another Namespace with --probe-namespace",
            ),
            id="no right",
        ),
        pytest.param(
            403,
            _OTHERS,
            True,
            (
                "unknown",
                f"something else refused it first: {_OTHERS}",
                "use an account that may create configmaps there, or choose another Namespace with --probe-namespace",
            ),
            id="another webhook",
        ),
    ],
)
def test_what_the_answer_says(status: int, message: str, wanted: Read[bool], expected: tuple[str, str, str]) -> None:
    """Only a refusal in the service's own name proves the way; an admission is judged by what was to be expected."""
    level, found, remedy = expected
    diagnosis = check_probe(Probe("default", status, message), should_refuse=wanted)
    assert diagnosis == Diagnosis("probe", level, _WHERE, found, remedy)  # type: ignore[arg-type]


def test_a_probe_without_an_answer() -> None:
    """What could not be sent is not known."""
    assert check_probe(FORBIDDEN, should_refuse=True).level == "unknown"
    assert [is_answered(each) for each in (None, FORBIDDEN, Probe("x", 201), Probe("x", 403, _DENIED))] == [
        *(False, False, False, True)
    ]


@pytest.mark.parametrize(
    ("user", "namespace", "action", "refused"),
    [
        pytest.param(UserInfo("alice"), "default", "deny", True, id="anybody"),
        pytest.param(UserInfo("root", groups=("system:masters",)), "default", "deny", False, id="system:masters"),
        pytest.param(UserInfo("system:serviceaccount:org:x"), "default", "deny", False, id="control plane"),
        pytest.param(UserInfo("alice"), "default", "warn", False, id="only warned"),
    ],
)
def test_whom_the_rules_would_refuse(user: UserInfo, namespace: str, action: str, refused: bool) -> None:  # noqa: FBT001
    """The service's own rules say what was to be expected of the requester."""
    ruleset = rules.build(settings(labels={"action": action}))
    labels = {"org": {"ns.coreweave.cloud/org": "control-plane"}}

    assert is_refused(ruleset, namespace, user, labels, _TODAY) is refused
