"""What people read about a report on the workload."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from webhook.audit.finding import Finding, Scope, Subject, Verdict
from webhook.audit.reports import OPEN_REPORTS, POLICY_REPORTS, Form, notice, report

_WEB = Scope("apps/v1", "Deployment", "a", "web", "uid-web")
_NODE = Scope("v1", "Node", "", "n", "uid-n")
_SEEN = "Its report: kubectl get reports.openreports.io cks-admission-uid-web -n a -o yaml"


def _notice(scope: Scope, *findings: Finding, form: Form = OPEN_REPORTS) -> str:
    return notice(form, scope, report(form, scope, findings, datetime(2026, 3, 1, tzinfo=UTC)))


def _itself(policy: str, verdict: Verdict = "deny", path: str = "", message: str = "No.", remedy: str = "") -> Finding:
    return Finding(Subject("apps/v1", "Deployment", "a", "web", "uid-web"), policy, verdict, path, message, remedy)


def _pod(policy: str, number: int = 0, verdict: Verdict = "deny") -> Finding:
    return Finding(Subject("v1", "Pod", "a", f"web-{number}", f"uid-{number}"), policy, verdict, "", "No latest.")


@pytest.mark.parametrize(
    ("findings", "text"),
    [
        (
            [_itself("team", path="metadata", message="Say whose it is.", remedy="Add the label\n team.")],
            "Deployment by team. team: metadata: Say whose it is. Add the label team.",
        ),
        ([_pod("latest", number) for number in range(3)], "Pod by latest. latest: No latest."),
        (
            [
                _pod("latest"),
                _itself("broken", "error"),
                _itself("b"),
                _itself("b", path="x"),
                _itself("noted", "audit"),
            ],
            "Deployment by b, broken; Pod by latest. b: No.",
        ),
        ([_itself(f"p-{number}") for number in range(7)], "Deployment by p-0, p-1, p-2, p-3, p-4 and others. p-0: No."),
    ],
    ids=["itself", "its Pods", "both", "many"],
)
def test_it_says_what_would_be_refused(findings: list[Finding], text: str) -> None:
    """Kinds with the policies that would refuse them, the gravest finding with its remedy, and where the rest is."""
    assert _notice(_WEB, *findings) == f"Would be refused if created today: {text} {_SEEN}"


def test_what_is_in_no_namespace_has_a_report_of_the_cluster() -> None:
    """The command shows the report of the kind that there is, without a Namespace where it is in none."""
    finding = Finding(Subject("v1", "Node", "", "n", "uid-n"), "p", "deny", "", "No.")

    assert _notice(_NODE, finding, form=POLICY_REPORTS) == (
        "Would be refused if created today: Node by p. p: No. "
        "Its report: kubectl get clusterpolicyreports.wgpolicyk8s.io cks-admission-uid-n -o yaml"
    )


def test_nothing_is_said_where_nothing_would_be_refused() -> None:
    """Warnings, notes and exceptions are no news for who rolls out."""
    assert _notice(_WEB, *(_itself("p", verdict) for verdict in ("warn", "audit", "exempt"))) == ""


def test_it_is_shorter_than_an_event_may_be() -> None:
    """However long names and messages are, the beginning, the remedy and the report are there in 1024 characters."""
    scope = Scope("apps/v1", "Deployment", "n" * 63, "web", "0b5fd6a0-66dd-4c35-8a2f-31b5d1f1a3c7")
    findings = [
        _itself(f"{number}{'p' * 252}", path="x." * 200, message="m" * 5000, remedy="Do that.") for number in range(9)
    ]
    text = _notice(scope, *findings, form=POLICY_REPORTS)

    assert len(text) < 1024
    assert text.startswith("Would be refused if created today: Deployment by 0ppp")
    assert text.endswith(
        f"… Its report: kubectl get policyreports.wgpolicyk8s.io cks-admission-{scope.uid} -n {'n' * 63} -o yaml"
    )
