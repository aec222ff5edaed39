"""The webhook configurations stay as the service wrote them, whatever people and clouds do, until they are removed."""

from __future__ import annotations

import base64
import json
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cluster import manifests
from cluster.service import COMMAND, NAMESPACE, Service
from cluster.test_registration import exported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.controlplane import ControlPlane
    from cluster.kubectl import Completed
    from cluster.manifests import Manifest

MUTATING, VALIDATING = "mutatingwebhookconfiguration", "validatingwebhookconfiguration"
NAME = "cks-admission"
_NEVER = 86400.0


@contextmanager
def running(control_plane: ControlPlane, *, seconds: float = 1, **registration: Any) -> Iterator[Service]:
    """Run a service that looks at its registration so often, with more settings of that; unregister it at the end."""
    control_plane.namespace(NAMESPACE)
    service = Service(control_plane)
    settings = yaml.safe_load(service.config.read_text(encoding="utf-8"))
    settings["registration"] |= registration
    settings["tls"]["checkSeconds"] = seconds
    service.config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    try:
        service.start()
        yield service
    finally:
        service.kill()
        unregister(service)


def unregister(service: Service) -> str:
    """Run `cks-admission unregister` with a service's settings and return what it prints."""
    command = [str(COMMAND), "unregister", "--config", str(service.config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# First those that run a service of their own: another one beside it would hold the Lease.


def test_unregistered_stays_away_until_a_restart(control_plane: ControlPlane) -> None:
    """A running service does not put back what was unregistered; its next start does."""
    with running(control_plane) as service:
        printed = unregister(service)
        control_plane.wait_for("the service to notice", lambda: service.events("registration is suspended"))
        again = control_plane.kubectl("wait", "--for=create", f"{VALIDATING}/{NAME}", "--timeout=4s")
        suspended = [event["level"] for event in service.events("registration is suspended")]
        service.kill()
        service.start()

        assert (len(printed.splitlines()), again.returncode, suspended) == (2, 1, ["warning"])
        assert entries(control_plane)
        assert unregister(service)
    assert unregister(service) == "nothing to remove\n"


def test_they_go_with_the_role_that_owns_them(control_plane: ControlPlane) -> None:
    """Kubernetes removes them after their ClusterRole, and a service that still runs does not put them back."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "release"},
        "rules": [],
    }
    control_plane.objects.apply(role)
    with running(control_plane, owner="release") as service:
        owners = control_plane.get(VALIDATING, NAME)["metadata"]["ownerReferences"]
        control_plane.kubectl("delete", "clusterrole", "release", user="admin", check=True)
        for kind in (MUTATING, VALIDATING):
            control_plane.kubectl("wait", "--for=delete", f"{kind}/{NAME}", "--timeout=120s", check=True)
        noticed = "owner of the registration not found"
        control_plane.wait_for("the service to notice", lambda: service.events(noticed))
        again = control_plane.kubectl("wait", "--for=create", f"{VALIDATING}/{NAME}", "--timeout=4s")

        assert [(owner["kind"], owner["name"], owner["blockOwnerDeletion"]) for owner in owners] == [
            ("ClusterRole", "release", False)
        ]
        assert again.returncode == 1


def test_only_the_bundle_is_written(control_plane: ControlPlane) -> None:
    """With caOnly the service's entries get its CA, whoever applies them; what is missing is not made."""
    with running(control_plane) as service:
        printed = list(yaml.safe_load_all(exported(service)))[1]
        bundle = printed["webhooks"][0]["clientConfig"]["caBundle"]
        settings = yaml.safe_load(service.config.read_text(encoding="utf-8"))["registration"]
        unregister(service)
        for entry in printed["webhooks"]:
            del entry["clientConfig"]["caBundle"]
        printed["webhooks"].append({**printed["webhooks"][0], "name": "theirs.example.org", "failurePolicy": "Ignore"})
        control_plane.apply(printed, "--server-side", "--field-manager=helm", check=True)

        with service.configured(registration={**settings, "apply": False, "caOnly": True}):
            control_plane.wait_until(
                "the CA to be written",
                lambda: {entry["clientConfig"].get("caBundle") for entry in entries(control_plane).values()},
                lambda bundles: bundles == {bundle, None},
            )
            control_plane.apply(printed, "--server-side", "--field-manager=helm", check=True)
            stored = entries(control_plane)
            _patch({"path": "/webhooks/0/clientConfig/caBundle", "value": _FOREIGN_CA})(control_plane)
            settled(control_plane, service, stored, 0)

            assert stored["theirs.example.org"]["clientConfig"].get("caBundle") is None
            assert {entry["name"] for entry in printed["webhooks"]} == set(stored)
            assert entries(control_plane, MUTATING) == {}


@pytest.fixture(scope="module")
def guarded(control_plane: ControlPlane) -> Iterator[Service]:
    """Run a service whose registration the tests spoil. It does not look by itself: it repairs what it is told of."""
    with running(control_plane, seconds=_NEVER) as service:
        yield service


def entries(control_plane: ControlPlane, kind: str = VALIDATING) -> dict[str, Manifest]:
    """Return the entries in the cluster by name; none where there is no configuration. Raises KubectlError."""
    return {entry["name"]: entry for entry in control_plane.objects.find(kind, NAME).get("webhooks", ())}


def settled(
    control_plane: ControlPlane, service: Service, before: dict[str, Manifest], repairs: int
) -> list[dict[str, Any]]:
    """Wait until the entries are as they were, and the log has more repairs than before; return those."""
    return control_plane.wait_until(
        "the registration to be repaired",
        lambda: service.events("registration repaired")[repairs:],
        lambda found: entries(control_plane) == before and found,
    )


def _patch(*operations: Manifest) -> Callable[[ControlPlane], Completed]:
    """Change the validating configuration as somebody with `kubectl patch` does."""
    text = json.dumps([{"op": "add", **operation} for operation in operations])
    return lambda cluster: cluster.kubectl("patch", VALIDATING, NAME, "--type=json", "-p", text, check=True)


def _apply_condition(control_plane: ControlPlane) -> Completed:
    """Add a condition by a field manager of its own: the service's own apply does not take it away."""
    condition = {"name": "never", "expression": "false"}
    manifest = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [{"name": "labels.cks-admission.dev", "matchConditions": [condition]}],
    }
    return control_plane.apply(manifest, "--server-side", "--field-manager=other", check=True)


_FOREIGN_CA = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n").decode()
_ELSEWHERE = {"service": {"name": "evil", "namespace": "default"}, "caBundle": _FOREIGN_CA}

_LABELS = "labels.cks-admission.dev"
_SPOILT: dict[str, tuple[Callable[[ControlPlane], Completed], list[str], str]] = {
    "failure-policy": (
        _patch({"path": "/webhooks/0/failurePolicy", "value": "Ignore"}),
        [f"{_LABELS}: failurePolicy is Ignore, not Fail"],
        "kubectl-patch",
    ),
    "object-selector": (
        _patch({"path": "/webhooks/0/objectSelector", "value": {"matchLabels": {"judge": "me"}}}),
        [f"{_LABELS}: objectSelector"],
        "kubectl-patch",
    ),
    "condition-of-another-manager": (_apply_condition, [f"{_LABELS}: matchConditions never"], "other"),
    "rules": (
        _patch({"path": "/webhooks/0/rules/0/operations", "value": ["CREATE"]}),
        [f"{_LABELS}: rules"],
        "kubectl-patch",
    ),
    "another-service": (
        _patch({"path": "/webhooks/0/clientConfig", "value": _ELSEWHERE}),
        [f"{_LABELS}: clientConfig caBundle, service, url"],
        "kubectl-patch",
    ),
    "entry": (_patch({"op": "remove", "path": "/webhooks/0"}), [f"{_LABELS}: missing"], ""),
    "emptied": (_patch({"path": "/webhooks", "value": []}), [], ""),
    "deleted": (lambda cluster: cluster.kubectl("delete", VALIDATING, NAME, check=True), ["it does not exist"], ""),
}


@pytest.mark.parametrize(("spoil", "differences", "by"), _SPOILT.values(), ids=_SPOILT)
def test_what_is_spoilt_is_repaired(
    control_plane: ControlPlane,
    guarded: Service,
    spoil: Callable[[ControlPlane], Completed],
    differences: list[str],
    by: str,
) -> None:
    """Within seconds the entries are as they were, and the log says what was different and whose doing it was."""
    before, repairs = entries(control_plane), len(guarded.events("registration repaired"))
    expected = differences or [f"{name}: missing" for name in before]

    spoil(control_plane)

    found = settled(control_plane, guarded, before, repairs)
    assert [(event["differences"], event["by"]) for event in found] == [(expected, by)]


_AKS = [
    {"key": "control-plane", "operator": "NotIn", "values": ["true"]},
    {"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]},
]
_GKE = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["gke-managed-system", "kube-system"]}


@pytest.fixture(name="keeping")
def _keeping(guarded: Service) -> Iterator[Service]:
    """The service, told to keep what clouds add."""
    registration = yaml.safe_load(guarded.config.read_text(encoding="utf-8"))["registration"]
    kept = [{"key": added["key"], "values": added["values"]} for added in (*_AKS, _GKE)]
    with guarded.configured(registration={**registration, "kept": kept}):
        yield guarded


def test_what_a_cloud_adds_is_no_fight(control_plane: ControlPlane, keeping: Service) -> None:
    """A cloud's requirements, and what others write beside the entries, stay through repairs, and cause none."""
    added = [*_AKS, _GKE]
    path = "/webhooks/0/namespaceSelector/matchExpressions/-"
    _patch(*({"path": path, "value": requirement} for requirement in added))(control_plane)
    control_plane.kubectl("label", VALIDATING, NAME, "theirs=x", check=True)
    control_plane.kubectl("annotate", VALIDATING, NAME, "theirs=y", check=True)
    before, repairs = control_plane.get(VALIDATING, NAME), len(keeping.events("registration repaired"))

    # The service has looked at all of that once it has repaired something that came later.
    _patch({"path": "/webhooks/1/failurePolicy", "value": "Ignore"})(control_plane)
    kept = {entry["name"]: entry for entry in before["webhooks"]}
    (event,) = settled(control_plane, keeping, kept, repairs)

    found = control_plane.get(VALIDATING, NAME)
    requirements = found["webhooks"][0]["namespaceSelector"]["matchExpressions"]
    metadata = found["metadata"]
    assert event["differences"] == ["cluster-labels.cks-admission.dev: failurePolicy is Ignore, not Fail"]
    assert requirements[-3:] == added
    assert (metadata["labels"]["theirs"], metadata["annotations"]["theirs"]) == ("x", "y")
    assert metadata["generation"] == before["metadata"]["generation"] + 2


def test_nothing_is_kept_by_default(control_plane: ControlPlane, guarded: Service) -> None:
    """What a cloud adds to the entry for Namespaces is taken out, so that no label of one's own opens the promotion."""
    before, repairs = entries(control_plane), len(guarded.events("registration repaired"))
    _patch({"path": "/webhooks/1/namespaceSelector", "value": {"matchExpressions": _AKS[:1]}})(control_plane)

    (event,) = settled(control_plane, guarded, before, repairs)
    labels = {"control-plane": "true", "ns.coreweave.cloud/org": "control-plane"}
    answer = control_plane.apply(manifests.namespace("promoted", labels))

    assert event["differences"] == ["cluster-labels.cks-admission.dev: namespaceSelector"]
    assert 'admission webhook "cluster-labels.cks-admission.dev" denied the request' in answer.stderr


def test_an_object_that_is_gone_is_not_applied_again(control_plane: ControlPlane) -> None:
    """What the service relies on: applying with the uid of an object that is no more makes no new one."""
    manifest = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "gone", "uid": "5f3c9a3e-0000-4000-8000-000000000000"},
        "webhooks": [],
    }

    answer = control_plane.apply(manifest, "--server-side")

    assert answer.returncode == 1
    assert "uid mismatch" in answer.stderr
    assert control_plane.kubectl("get", VALIDATING, "gone").returncode == 1
