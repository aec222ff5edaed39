"""The reports that findings come to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from webhook.audit.finding import Finding, Judged, Scope, Subject, Verdict
from webhook.audit.reports import (
    CONTENT,
    LONGEST,
    MOST,
    OPEN_REPORTS,
    POLICY_REPORTS,
    Form,
    Store,
    notice,
    report,
)

_NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_TIME = {"seconds": 1772366400, "nanos": 0}
_WEB = Scope("apps/v1", "Deployment", "a", "web", "uid-web")
_ITSELF = Subject("apps/v1", "Deployment", "a", "web", "uid-web", "Deployment/web", _WEB)
_NODE = Scope("v1", "Node", "", "n", "uid-n")
_DENIED = Finding(Subject("v1", "Node", "", "n", "uid-n", "Node/n", _NODE), "p", "deny", "", "no")


def _pod(number: int) -> Subject:
    return Subject("v1", "Pod", "a", f"web-{number}", f"uid-{number}", "Deployment/web", _WEB)


_FINDINGS = [
    *(Finding(_pod(number), "latest", "warn", "spec.containers[0].image", "no latest") for number in range(3)),
    Finding(_ITSELF, "noted", "audit", "", "it is noted"),
    Finding(_ITSELF, "old", "exempt", "metadata.labels", "moved", until="2026-12-31T23:59:59Z"),
    Finding(_ITSELF, "team", "deny", "metadata", "Say whose it is.", "Add the label team."),
    Finding(_ITSELF, "broken", "error", "", "it could not be evaluated"),
]


@pytest.mark.parametrize(
    ("form", "kind", "of_report", "of_result"),
    [
        (OPEN_REPORTS, "Report", {"source": "cks-admission"}, {}),
        (POLICY_REPORTS, "PolicyReport", {}, {"source": "cks-admission"}),
    ],
    ids=["open-reports", "policy-reports"],
)
def test_a_report_says_what_is_found_about_a_workload(
    form: Form, kind: str, of_report: dict[str, Any], of_result: dict[str, Any]
) -> None:
    """The gravest comes first; what is said of several Pods is one result with their number; the summary counts all."""

    def result(policy: str, kind_of: str, severity: str, message: str, **properties: str) -> dict[str, Any]:
        said: dict[str, Any] = {"policy": policy, "result": kind_of, "severity": severity, "message": message}
        return said | of_result | {"properties": properties, "timestamp": _TIME}

    body = report(form, _WEB, _FINDINGS, _NOW)
    body["metadata"].pop("annotations")
    identities = {result["properties"].pop("resultID") for result in body["results"]}

    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web"}
    assert body == {
        "apiVersion": form.api_version,
        "kind": kind,
        "metadata": {
            "name": "cks-admission-uid-web",
            "namespace": "a",
            "labels": {"app.kubernetes.io/managed-by": "cks-admission"},
            "ownerReferences": [owner],
        },
        **of_report,
        "scope": {**owner, "namespace": "a"},
        "summary": {"pass": 0, "fail": 1, "warn": 4, "error": 1, "skip": 1},
        "results": [
            result("team", "fail", "high", "Say whose it is.\nAdd the label team.", path="metadata"),
            result("broken", "error", "high", "it could not be evaluated"),
            result("latest", "warn", "medium", "no latest", path="spec.containers[0].image", kind="Pod", count="3"),
            result("noted", "warn", "low", "it is noted"),
            result("old", "skip", "info", "moved", path="metadata.labels", until="2026-12-31T23:59:59Z"),
        ],
    }
    assert len(identities) == len(body["results"])


def test_what_is_in_no_namespace_has_a_report_of_the_cluster() -> None:
    """The report about a Node is a ClusterReport, which the Node owns."""
    body = report(OPEN_REPORTS, _NODE, [_DENIED], _NOW)

    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "uid-n"}
    metadata = body["metadata"]
    assert (body["kind"], body["scope"], metadata["ownerReferences"]) == ("ClusterReport", owner, [owner])
    assert "namespace" not in metadata


def test_a_report_is_bounded() -> None:
    """Of many results the gravest are kept, of a long message its beginning; the summary counts what is left out."""
    warned = [Finding(_ITSELF, f"p-{number:03}", "warn", "", "x" * 2 * LONGEST) for number in range(2 * MOST)]
    body = report(OPEN_REPORTS, _WEB, [*warned, Finding(_ITSELF, "z", "deny", "", "no")], _NOW)

    assert [result["policy"] for result in body["results"]] == ["z", *(f"p-{number:03}" for number in range(MOST - 1))]
    assert (body["summary"]["fail"], body["summary"]["warn"]) == (1, 2 * MOST)
    assert {len(result["message"]) for result in body["results"]} == {2, LONGEST}


def test_only_what_is_said_makes_another_report() -> None:
    """Neither the order of findings, nor the time, nor which Pods there are changes the content; another word does."""

    def content(findings: list[Finding], now: datetime = _NOW) -> str:
        return str(report(OPEN_REPORTS, _WEB, findings, now)["metadata"]["annotations"][CONTENT])

    others = [replace(_FINDINGS[0], subject=_pod(number)) for number in (7, 8, 9)]
    same = content(_FINDINGS)
    assert content(_FINDINGS[::-1], datetime(2027, 1, 1, tzinfo=UTC)) == same
    assert content([*others, *_FINDINGS[3:]]) == same
    assert content(_FINDINGS[1:]) != same
    assert content([*_FINDINGS[:-1], Finding(_ITSELF, "broken", "error", "", "it failed")]) != same


def test_findings_are_kept_until_they_are_written() -> None:
    """Findings of one workload come together, in whatever order objects were judged; changes are nothing to report."""
    changed = Finding(_ITSELF, "p", "mutate", "", "it would be other")
    with Store() as store:
        store.add(Judged(_pod(0), (_FINDINGS[0],)))
        store.add(Judged(_DENIED.subject, (_DENIED,)))
        store.add(Judged(_ITSELF, (changed, *_FINDINGS[3:])))
        store.add(Judged(Subject("v1", "Pod", "a", "p", "u", "", Scope("v1", "Pod", "a", "p", "u"))))

        assert list(store.workloads()) == [(_NODE, [_DENIED]), (_WEB, [_FINDINGS[0], *_FINDINGS[3:]])]


_SEEN = "Its report: kubectl get reports.openreports.io cks-admission-uid-web -n a -o yaml"


def _notice(scope: Scope, *findings: Finding, form: Form = OPEN_REPORTS) -> str:
    return notice(form, scope, report(form, scope, findings, _NOW))


def _itself(policy: str, verdict: Verdict = "deny", path: str = "", message: str = "No.", remedy: str = "") -> Finding:
    return Finding(_ITSELF, policy, verdict, path, message, remedy)


def _of_pod(policy: str, number: int = 0) -> Finding:
    return Finding(_pod(number), policy, "deny", "", "No latest.")


_NOTED = _itself("noted", "audit")


@pytest.mark.parametrize(
    ("findings", "text"),
    [
        (
            [_itself("team", path="metadata", message="Say whose it is.", remedy="Add the label\n team.")],
            "Deployment by team. team: metadata: Say whose it is. Add the label team.",
        ),
        ([_of_pod("latest", number) for number in range(3)], "Pod by latest. latest: No latest."),
        (
            [_of_pod("latest"), _itself("broken", "error"), _itself("b"), _itself("b", path="x"), _NOTED],
            "Deployment by b, broken; Pod by latest. b: No.",
        ),
        ([_itself(f"p-{number}") for number in range(5)], "Deployment by p-0, p-1, p-2, p-3, p-4. p-0: No."),
        ([_itself(f"p-{number}") for number in range(6)], "Deployment by p-0, p-1, p-2, p-3, p-4 and others. p-0: No."),
    ],
    ids=["itself", "its Pods", "both", "all", "many"],
)
def test_it_says_what_would_be_refused(findings: list[Finding], text: str) -> None:
    """Kinds with the policies that would refuse them, the gravest finding with its remedy, and where the rest is."""
    assert _notice(_WEB, *findings) == f"Would be refused if created today: {text} {_SEEN}"


def test_the_command_shows_the_kind_of_report_that_there_is() -> None:
    """The command shows the report of the kind that there is, without a Namespace where it is in none."""
    assert _notice(_NODE, _DENIED, form=POLICY_REPORTS) == (
        "Would be refused if created today: Node by p. p: no "
        "Its report: kubectl get clusterpolicyreports.wgpolicyk8s.io cks-admission-uid-n -o yaml"
    )


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
