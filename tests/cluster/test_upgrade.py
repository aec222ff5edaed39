"""A cluster is upgraded under the running service: another API server on the same store, while people write."""

from __future__ import annotations

import http.client
import json
import os
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from support.policies.nativeanswers import FAILURE_ANNOTATION

from cluster import jsonlog, load, toolchain
from cluster.apicalls import Answer, Caller
from cluster.controlplane import ControlPlane
from cluster.polling import PATIENCE, NotYet
from cluster.programs import CONTROL_PLANE
from cluster.service import NAMESPACE, Service, registered
from policies.kubernetes.release import FINAL, Release
from webhook.cluster.watches.policies import REFUSED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OLD, NEW = FINAL[-2:]
_CONFIG_MAPS = "/api/v1/namespaces/load/configmaps"
_PAUSE_SECONDS = 0.1

# Both of these fail for a ConfigMap with the label; only a later API server tells of the second.
AUDITED = yaml.safe_load_all("""\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: audited}
spec:
  matchConstraints:
    objectSelector: {matchLabels: {audited: "yes"}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations:
  - {expression: "false", message: The first.}
  - {expression: "false", message: The second.}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: audited}
spec: {policyName: audited, validationActions: [Audit]}
""")
# A field name in backticks is new.
QUOTED = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: quoted}
spec:
  matchConstraints:
    objectSelector: {matchLabels: {example.org/owner: nobody}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations:
  - {expression: "object.metadata.labels.`example.org/owner` != 'nobody'", message: Somebody owns it.}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: quoted}
spec: {policyName: quoted, validationActions: [Deny]}
"""


class PatientCaller(Caller):
    """A connection that asks again while there is no API server, or one that has only begun to start."""

    def send(self, method: str, path: str, body: Any = None, **more: Any) -> Answer:
        """Send one request until it is answered."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                answer = super().send(method, path, body, **more)
            except (OSError, http.client.HTTPException):
                if time.monotonic() > until:
                    raise
                self.close()
            else:
                if not _is_starting(answer) or time.monotonic() > until:
                    return answer
            time.sleep(_PAUSE_SECONDS)


def _is_starting(answer: Answer) -> bool:
    """Whether the API server has not read yet who may do what, or which webhooks and policies there are."""
    message = str(answer.body.get("message"))
    return answer.code in (429, 503) or "not yet ready" in message or 'User "alice" cannot' in message


def _tools(release: Release) -> Path:
    return toolchain.ensure(CONTROL_PLANE, environment={**os.environ, "KUBERNETES": release.name})


@pytest.fixture
def older() -> Iterator[ControlPlane]:
    """A control plane of the release before the newest, with a policy of its own, and the Namespace of the writers."""
    with ControlPlane(_tools(OLD)) as running:
        running.namespace(load.NAMESPACE)
        running.namespace(NAMESPACE)
        running.objects.apply(list(AUDITED))
        yield running


def test_an_upgrade_under_load(older: ControlPlane, tmp_path: Path) -> None:
    """No write gets a wrong verdict, and the service judges by the new release, with the policies that it takes."""
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "load.yaml").write_text(load.POLICIES, encoding="utf-8")
    older.objects.apply(_source(QUOTED))
    newest = _tools(NEW)
    with ExitStack() as stack:
        service = stack.enter_context(registered(older, policies={"directories": [str(policies)]}))
        caller = stack.enter_context(PatientCaller(older))
        writers = stack.enter_context(load.Load(older, caller=PatientCaller))
        with writers.phase("before"):
            before = _found(service, caller)
        with writers.phase("during"):
            older.upgrade_api_server(newest)
            older.wait_for("the service to follow", lambda: _follows(service, caller))
        with writers.phase("after"):
            after = _found(service, caller)

    assert [phase.failures for phase in writers.phases] == [[], [], []]
    assert (before, after) == (
        {"release": OLD.name, "audited": ["The first."], "refused": True, "denied": False},
        {"release": NEW.name, "audited": ["The first.", "The second."], "refused": False, "denied": True},
    )


def _source(text: str) -> dict[str, Any]:
    metadata = {"name": "quoted", "namespace": NAMESPACE, "labels": {"cks-admission.dev/policies": "true"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"policy.yaml": text}}


def _follows(service: Service, caller: Caller) -> bool:
    """Whether the service judges by the new release, and the API server asks it about what that brought."""
    found = _found(service, caller)
    if found["release"] != NEW.name or not found["denied"]:
        raise NotYet(str(found))
    return True


def _found(service: Service, caller: Caller) -> dict[str, Any]:
    """By which release the service judges, what the API server audits, and what became of the policy in backticks."""
    audited = caller.send("POST", f"{_CONFIG_MAPS}?dryRun=All", _config_map(audited="yes"))
    owned = _config_map(**{"example.org/owner": "nobody"})
    denial = caller.send("POST", f"{_CONFIG_MAPS}?dryRun=All", owned).body.get("message", "")
    judged = [
        release.name
        for release in FINAL
        if service.metric(
            f'cks_admission_kubernetes_info{{proven="true",release="{release.name}",version="v{release.proven}"}}'
        )
    ]
    source = caller.send("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/quoted").body
    return {
        "release": "".join(judged),
        "audited": [failure["message"] for failure in _failures(service.control_plane, audited.audit_id)],
        "refused": REFUSED in source["metadata"].get("annotations", {}),
        "denied": "Somebody owns it." in denial,
    }


def _config_map(**labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "asked", "labels": labels}}


def _failures(control_plane: ControlPlane, audit_id: str) -> list[dict[str, Any]]:
    """The failures in the audit annotation of a request."""
    annotations = control_plane.wait_until(
        "the audit log",
        lambda: [event for event in jsonlog.entries(control_plane.audit_log) if event["auditID"] == audit_id],
        lambda found: found,
    )[0].get("annotations", {})
    failures: list[dict[str, Any]] = json.loads(annotations.get(FAILURE_ANNOTATION, "[]"))
    return failures
