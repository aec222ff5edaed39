"""`cks-admission review`: AdmissionReviews in, the server's answers out."""

import json
from pathlib import Path

import pytest
from support.builders import daemon_set, deployment, pod
from support.service.commands import run, start
from support.service.reviews import REFUSAL, RESERVED, TODAY, UID, answer_of, body, refused_body, review
from support.service.servers import Serve, default_rules

from policies.engine.facts import StaticFacts
from webhook.http.decision import Served

pytestmark = pytest.mark.usefixtures("no_packs")


_ADMITTED = body(pod(labels={"app": "a"}), uid="a-1")
_DELETED = body(None, pod(), operation="DELETE", uid="d-1")
_WARNED = body(pod(labels={"app": "é"}), uid="w-1")
_REVIEWS = [
    _ADMITTED,
    _DELETED,
    _WARNED,
    refused_body(),
    body(deployment(template_labels=RESERVED), uid="t-1"),
    body(daemon_set(tolerations=None), uid="n-1"),
    body(pod(tolerations="all"), uid="o-1"),
    body({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": ["x"]}}, uid="l-1"),
]


_PATHS = (
    "validate",
    "mutate",
    "validate/labels",
    "mutate/pods",
    "mutate/workloads",
    "validate/policies-ignore",
    "/validate/",
)


async def test_answers_are_the_servers_byte_for_byte(serve: Serve) -> None:
    """For every review and path the command says what the server says, to the last byte."""
    running = await serve(Served(default_rules(), StaticFacts(TODAY)))
    expected, printed = {}, {}
    for path in _PATHS:
        replies = [await running.post(sent, "/" + path.strip("/")) for sent in _REVIEWS]
        assert [reply.status for reply in replies] == [200] * len(_REVIEWS)
        refused = any(not answer_of(reply.body)["allowed"] for reply in replies)
        expected[path] = (b"".join(reply.body + b"\n" for reply in replies), b"", 1 if refused else 0)
        result = run("review", "--path", path, "-", stdin=b"\n".join(_REVIEWS))
        printed[path] = (result.stdout_bytes, result.stderr_bytes, result.exit_code)

    assert printed == expected


def test_the_real_command_prints_the_same_bytes() -> None:
    """Real pipes change nothing."""
    sent = b"\n".join(_REVIEWS)
    result = run("review", "--path", "validate", "-", stdin=sent)
    done = start("review", "--path", "validate", "-", stdin=sent)

    assert (done.stdout, done.stderr, done.returncode) == (result.stdout_bytes, b"", result.exit_code)


def test_files_hold_a_review_each() -> None:
    """Files are answered in their order, pretty-printed or not, in one line each."""
    Path("a.json").write_text(json.dumps(review(pod(labels=RESERVED)), indent=2), encoding="utf-8")
    Path("b.json").write_bytes(_ADMITTED)

    result = run("review", "a.json", "b.json")

    first, second = (answer_of(line) for line in result.stdout.splitlines())
    assert (first["uid"], first["status"]["message"], second["uid"], second["allowed"]) == (UID, REFUSAL, "a-1", True)
    assert (result.stderr, result.exit_code) == ("", 1)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ([_ADMITTED, _DELETED], 0),
        ([refused_body(), _ADMITTED], 1),
        ([_ADMITTED, refused_body()], 1),
        ([b"[]", _ADMITTED], 2),
        ([refused_body(), b"[]"], 2),
        ([b"[]", refused_body()], 2),
        ([], 0),
    ],
)
def test_the_exit_code_is_the_worst(sent: list[bytes], code: int) -> None:
    """1 where one is refused, 2 where one is no review, whatever comes behind it."""
    assert run("review", "-", stdin=b"\n".join(sent)).exit_code == code


def test_what_is_no_review_does_not_stop_the_others() -> None:
    """A line that the server would call a bad call is named on stderr, with its number and the HTTP status."""
    result = run("review", "-", stdin=b"\n".join([_ADMITTED, b"", b"hello", _DELETED, b'{"request": null']))

    assert [answer_of(line)["uid"] for line in result.stdout.splitlines()] == ["a-1", "d-1"]
    cause = "HTTP 400: The body is not JSON: {}. Send an AdmissionReview of admission.k8s.io/v1."
    assert result.stderr.splitlines() == [
        "line 3: " + cause.format("JSON is malformed: invalid character (byte 0)"),
        "line 5: " + cause.format("Input data was truncated"),
    ]
    assert result.exit_code == 2


def test_a_configuration_counts() -> None:
    """The rules are those of the configuration."""
    Path("cks.yaml").write_text("labels: {action: warn}\n", encoding="utf-8")

    result = run("review", "--config", "cks.yaml", "-", stdin=refused_body())

    answer = answer_of(result.stdout)
    warning = 'metadata.labels: foo.coreweave.cloud/bar="true": Namespaces `*.coreweave.cloud` or `*.coreweave.com` '
    assert (answer["allowed"], answer["warnings"][0].startswith(warning)) == (True, True)


_POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: teams}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
    namespaceSelector: {matchLabels: {tier: gold}}
  validations:
    - expression: authorizer.group('').resource('pods').check('delete').allowed()
      messageExpression: "'only for who may delete Pods in ' + namespaceObject.metadata.annotations['place']"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: teams}
spec: {policyName: teams, validationActions: [Deny]}
---
apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {tier: gold}, annotations: {place: here}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: cleaner}
rules: [{apiGroups: [""], resources: [pods], verbs: [delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: cleaner}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cleaner}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}]
"""


@pytest.mark.parametrize("given", ["--policies policies.yaml", "--config cks.yaml"])
def test_policies_in_files(given: str) -> None:
    """Policies answer too, with what the files say of Namespaces and of rights."""
    Path("policies.yaml").write_text(_POLICY, encoding="utf-8")
    Path("cks.yaml").write_text("policies: {directories: [policies.yaml]}\n", encoding="utf-8")
    sent = [body(pod(), userInfo={"username": name}, uid=name) for name in ("alice", "bob")]

    result = run("review", *given.split(), "--path", "validate/policies", "-", stdin=b"\n".join(sent))

    answers = [answer_of(line) for line in result.stdout.splitlines()]
    assert [(answer["uid"], answer["allowed"]) for answer in answers] == [("alice", False), ("bob", True)]
    denied = (
        "ValidatingAdmissionPolicy 'teams' with binding 'teams' denied request: only for who may delete Pods in here"
    )
    assert answers[0]["status"]["message"].splitlines()[0] == denied
    assert (result.stderr, result.exit_code) == ("", 1)


def test_audit_annotations_of_policies() -> None:
    """The audit log gets verdict and message of what is only audited, and what a policy publishes there."""
    rights = _POLICY.index("---\napiVersion: rbac")
    text = _POLICY[:rights].replace(
        "  validations:", "  auditAnnotations: [{key: who, valueExpression: request.userInfo.username}]\n  validations:"
    )
    checked = "authorizer.group('').resource('pods').check('delete').allowed()"
    text = text.replace(checked, "request.name == 'x'").replace("[Deny]", "[Audit]")
    Path("policies.yaml").write_text(text, encoding="utf-8")

    result = run("review", "--policies", "policies.yaml", "--path", "validate/policies", "-", stdin=body(pod()))

    assert answer_of(result.stdout)["auditAnnotations"] == {
        "teams": "audit: teams: only for who may delete Pods in here",
        "teams.who": "alice",
    }
