"""`cks-admission doctor` on a real control plane: first everything works, then one fault after the other."""

from __future__ import annotations

import base64
import json
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import pytest
import yaml
from click.testing import CliRunner, Result

from certs.material import new_authority
from certs.plan import usable_authority
from certs.serving import ServingContext
from cluster import manifests
from cluster.controlplane import ControlPlane
from cluster.polling import NotYet
from cluster.programs import judged_as
from cluster.service import NAMESPACE, Service, await_registration
from webhook.cli.main import main
from webhook.configuration import settingsfile
from webhook.registration.rights import Right, needed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from certs.material import Leaf
    from cluster.manifests import Manifest

MUTATING, VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:cks-admission"
_PUT_RIGHT = (
    'the service repairs it after being ready for 10 s; if it does not, look for "not registered" or '
    '"undone" in its log'
)
_RENEWED = 'the service renews it; if it does not, look for "certificate not renewed" or "not registered" in its log'

Found = tuple[str, str, str, str]


class Installation(NamedTuple):
    """A control plane with a service that has just the rights that it is said to need."""

    control_plane: ControlPlane
    service: Service

    def doctor(self, *arguments: str, user: str = "alice") -> Result:
        """Run the command in this process as a user, or as the service's account where that is empty."""
        kubeconfig = ("--kubeconfig", str(self.control_plane.kubeconfig(user))) if user else ()
        command = ["doctor", "--config", str(self.service.config), *kubeconfig, *arguments]

        # It says so of whoever a busy machine stops for some seconds, and no test here is about that.
        return self.control_plane.wait_until(
            "all to answer in time",
            lambda: CliRunner().invoke(main, command),
            lambda done: not any(late in done.stdout for late in ("no answer within", "deadline exceeded")),
        )

    def faults(self, *arguments: str) -> dict[str, list[Found]]:
        """What is not in order, by check, as level, place, what was found and the remedy."""
        done = self.doctor(*arguments, "-o", "json")
        assert done.stderr == ""
        found = [each for each in json.loads(done.stdout) if each["level"] != "ok"]
        assert done.exit_code == int(any(each["level"] == "problem" for each in found))
        return {
            check: [(each["level"], each["where"], each["found"], each["remedy"]) for each in group]
            for check, group in groupby(found, lambda each: str(each["check"]))
        }

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Without the service, which would put right what is broken; it does so afterwards."""
        self.service.stop()
        try:
            yield
        finally:
            self.service.start()
            await_registration(self.control_plane)

    def patch(self, kind: str, *operations: Any) -> None:
        """Change the service's webhook configuration."""
        done = ("patch", kind, "cks-admission", "--type=json", "-p", json.dumps(operations))
        self.control_plane.kubectl(*done, user="admin", check=True)


@pytest.fixture(scope="module")
def installation(judged: ControlPlane) -> Iterator[Installation]:
    """Run a service with the rights that `webhook.registration.rights` says it needs, and no others."""
    judged.namespace(NAMESPACE)
    service = Service(judged)
    judged.objects.delete("clusterrolebinding", f"{NAMESPACE}:cks-admission:cks-admission")
    judged.objects.apply(list(_roles(needed(settingsfile.read(service.config)))))
    try:
        service.start()
        await_registration(judged)
        yield Installation(judged, service)
    finally:
        service.kill()
        for kind in (MUTATING, VALIDATING):
            judged.objects.delete(kind, "cks-admission")


def _roles(rights: list[Right]) -> Iterator[Manifest]:
    """A role and a binding for each scope that the rights have."""
    subject = manifests.service_account_subject(NAMESPACE, "cks-admission")
    for namespace in dict.fromkeys(right.namespace for right in rights):
        kind = "Role" if namespace else "ClusterRole"
        metadata = {"name": "needed", **({"namespace": namespace} if namespace else {})}
        head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": metadata}
        yield {**head, "kind": kind, "rules": [_rule(right) for right in rights if right.namespace == namespace]}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "needed"}
        yield {**head, "kind": f"{kind}Binding", "roleRef": role, "subjects": [subject]}


def _rule(right: Right) -> Manifest:
    names = {"resourceNames": [right.name]} if right.name else {}
    return {"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb], **names}


def test_all_is_well(installation: Installation) -> None:
    """Every check looks, finds nothing, and says so; the exit code is 0."""
    done = installation.doctor()

    host = urlsplit(installation.service.url).netloc
    lines = done.stdout.splitlines()
    served = next(line for line in lines if line.startswith(f"  ok   {host}: its certificate is for 127.0.0.1, "))
    holder = next(line for line in lines if line.startswith(f"  ok   Lease {NAMESPACE}/cks-admission: "))
    placed = [line for line in lines if line.startswith("  ok   Pods behind the gate: ")]
    count = len(needed(settingsfile.read(installation.service.config)))
    assert lines == [
        "API server",
        f"  ok   version: v{judged_as().proven} has webhook match conditions and ValidatingAdmissionPolicy v1",
        "registration",
        f"  ok   {MUTATING} cks-admission: 2 entries, as in the settings",
        f"  ok   {VALIDATING} cks-admission: 6 entries, as in the settings",
        "certificate",
        served,
        "probe",
        (
            "  ok   ConfigMap with a reserved label, dry run in namespace default: "
            "the service refused it: the API server calls the service and gets its answer"
        ),
        "rights",
        (
            f"  ok   alice: it has the {count - _not_served(installation)} rights that the service needs; "
            "to check the service's own account, use --as-service-account NAMESPACE/NAME"
        ),
        "scope",
        "  ok   the service's entries: 2 entries fail closed, none of them in cks-admission or for all of kube-system",
        "other webhooks",
        "  ok   MutatingWebhookConfigurations: no other webhook changes what the service changes",
        "label writers",
        "  ok   mutating policies and definitions: no policy and no conversion can write labels past the guard",
        '  ok   impersonation, tokens and Pods: roles let User "alice" act as exempt requesters',
        "policies",
        "  ok   policies: 0 policies in addition to the built-in rules, none refused",
        "  ok   pack interruptable-qos: off",
        "  ok   pack scheduling-safety: off",
        "  ok   pack sunk: off",
        "topology",
        "  ok   Nodes: there are none",
        "replicas",
        holder,
        "placer",
        f"  ok   Lease {NAMESPACE}/cks-admission-placer: a placer holds and renews it",
        *placed,
        "no problem, 0 warnings, 0 unknown",
    ]
    assert holder.endswith(" holds and renews it")
    assert (done.stderr, done.exit_code) == ("", 0)


def _not_served(installation: Installation) -> int:
    """How many of the rights are about groups that this cluster does not have."""
    listed = installation.control_plane.kubectl("get", "--raw", "/apis", user="admin", check=True)
    groups = {each["name"] for each in json.loads(listed.stdout)["groups"]} | {""}
    return sum(right.group not in groups for right in needed(settingsfile.read(installation.service.config)))


def test_the_service_has_the_rights_that_it_needs(installation: Installation) -> None:
    """With just these it runs, and is found to have them; its log knows of no refusal."""
    done = installation.doctor("--as-service-account", f"{NAMESPACE}/cks-admission", "-o", "json")

    (found,) = (each for each in json.loads(done.stdout) if each["check"] == "rights")
    assert (found["level"], found["where"]) == ("ok", ACCOUNT)
    refused = [event for event in installation.service.events("watch failed") if event.get("status") == 403]
    assert refused == []


def test_what_the_service_itself_may_see(installation: Installation) -> None:
    """As the service's own account nothing is a problem; what it may not look at is not known, with the right."""
    done = installation.doctor(user="")

    unknown = [line for line in done.stdout.splitlines() if line.startswith("  ?    ")]
    assert (done.stderr, done.exit_code) == ("", 0)
    assert "  warn " not in done.stdout
    rights = {
        "other webhook configurations": "mutatingwebhookconfigurations and validatingwebhookconfigurations",
        "mutating policies and definitions": (
            "mutatingadmissionpolicies, mutatingadmissionpolicybindings and customresourcedefinitions"
        ),
        "impersonation, tokens and Pods": "roles, clusterroles and their bindings",
    }
    assert "the current account may not create configmaps" in unknown[0]
    assert unknown[1:] == [
        f"  ?    {where}: not checked: the current account may not list {what}" for where, what in rights.items()
    ]


def test_a_right_is_missing(installation: Installation) -> None:
    """It is named with what it is for, and with the rule that grants it."""
    control_plane = installation.control_plane
    role = control_plane.get("clusterrole", "needed")
    kept = [rule for rule in role["rules"] if rule["resources"] != ["nodes"]]
    control_plane.objects.apply({**_head(role), "rules": kept})
    try:
        found = installation.control_plane.wait_for("the right to be gone", lambda: _rights(installation))
    finally:
        control_plane.objects.apply({**_head(role), "rules": role["rules"]})

    assert found == [
        (
            "problem",
            ACCOUNT,
            "it may not list, watch nodes: rules look at the labels and taints of Nodes",
            'grant it with a ClusterRole: {apiGroups: [""], resources: [nodes], verbs: [list, watch]}',
        )
    ]


def _head(role: Manifest) -> Manifest:
    return {"apiVersion": role["apiVersion"], "kind": role["kind"], "metadata": {"name": role["metadata"]["name"]}}


def _rights(installation: Installation) -> list[Found]:
    """The findings about rights, as soon as there are some: the API server's authorizer follows roles by a watch."""
    found = installation.faults("--as-service-account", f"{NAMESPACE}/cks-admission").get("rights", [])
    if not found:
        raise NotYet("no finding")
    return found


def test_a_webhook_of_somebody_else(installation: Installation) -> None:
    """One that changes Pods after the service is told of, with the moment at which it is called."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    entry = {
        "name": "x.example.org",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "failurePolicy": "Ignore",
        "rules": [rule],
        "sideEffects": "None",
    }
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": MUTATING, "metadata": {"name": "zz-sidecars"}}
    installation.control_plane.objects.apply({**head, "webhooks": [entry]})
    try:
        done = installation.doctor("-o", "json")
    finally:
        installation.control_plane.kubectl("delete", MUTATING, "zz-sidecars", user="admin", check=True)

    assert [each for each in json.loads(done.stdout) if each["check"] == "other webhooks"] == [
        {
            "check": "other webhooks",
            "level": "ok",
            "where": f"{MUTATING} zz-sidecars",
            "found": "it may change pods after the service, which is then called again",
            "remedy": "",
        }
    ]


def test_policies_are_refused(installation: Installation) -> None:
    """A ConfigMap with a mistake is told in the words that the service has put into its annotation."""
    control_plane = installation.control_plane
    labels = {"cks-admission.dev/policies": "true"}
    metadata = {"name": "team", "namespace": NAMESPACE, "labels": labels}
    policy = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {}}
    data = {"policy.yaml": yaml.safe_dump(policy)}
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    control_plane.objects.apply(made)

    def told() -> str:
        found = control_plane.get("configmap", "team", "-n", NAMESPACE)["metadata"].get("annotations", {})
        if "cks-admission.dev/policies-refused" not in found:
            raise NotYet(str(found))
        return str(found["cks-admission.dev/policies-refused"])

    try:
        reason = control_plane.wait_for("the service to refuse the ConfigMap", told)
        found = installation.faults()
    finally:
        control_plane.kubectl("delete", "configmap", "team", "-n", NAMESPACE, user="admin", check=True)

    remedy = "correct it; until then the previous policies stay in force"
    assert found["policies"] == [("problem", f"ConfigMap {NAMESPACE}/team", f"refused: {reason}", remedy)]


def test_a_configuration_was_deleted(installation: Installation) -> None:
    """Nothing is asked any more: the configuration, the probe and the lost service are each a finding."""
    with installation.stopped():
        installation.control_plane.kubectl("delete", VALIDATING, "cks-admission", user="admin", check=True)
        found = installation.faults()

    gone = "it does not exist, so the API server never calls the service"
    assert found["registration"] == [("problem", f"{VALIDATING} cks-admission", gone, _PUT_RIGHT)]
    host = urlsplit(installation.service.url).netloc
    assert [(level, where) for level, where, *_ in found["certificate"]] == [("problem", host)]


def test_an_object_selector_was_added(installation: Installation) -> None:
    """It would let everybody opt out by a label: it is named, with who wrote it."""
    change = {"op": "add", "path": "/webhooks/0/objectSelector", "value": {"matchLabels": {"a": "b"}}}
    with installation.stopped():
        installation.patch(VALIDATING, change)
        found = installation.faults("--no-probe")

    ((level, where, text, remedy),) = found["registration"]
    assert (level, where, remedy) == ("problem", f"{VALIDATING} cks-admission", _PUT_RIGHT)
    written = (
        "it differs from the settings: labels.cks-admission.dev: objectSelector; last written by kubectl-patch at "
    )
    assert text.startswith(written)


def test_the_bundle_is_another_ones(installation: Installation) -> None:
    """A caBundle that does not fit what is served is told, and the probe hears of it from the API server."""
    service = installation.service
    pem = new_authority(datetime.now(UTC), name="somebody's CA").cert_pem
    with _shown_instead(installation, timedelta(days=1)):
        stored = installation.control_plane.get(VALIDATING, "cks-admission")
        for number in range(len(stored["webhooks"])):
            path = f"/webhooks/{number}/clientConfig/caBundle"
            installation.patch(VALIDATING, {"op": "replace", "path": path, "value": base64.b64encode(pem).decode()})
        found = installation.faults()

    host = urlsplit(service.url).netloc
    ((level, where, text, remedy),) = found["certificate"]
    assert (level, where, remedy) == ("problem", host, _RENEWED)
    assert text.startswith(
        "CN=127.0.0.1 is signed by CN=cks-admission CA, which neither the chain nor the bundle has; "
        f"the bundle has CN=somebody's CA; checked against the caBundle of {VALIDATING} "
    )
    ((level, _, text, remedy),) = found["probe"]
    assert (level, remedy) == ("problem", "see the findings about the address and the certificate")
    assert "certificate signed by unknown authority" in text


def test_the_certificate_has_expired(installation: Installation) -> None:
    """The date is told, and what the API server makes of it."""
    with _shown_instead(installation, timedelta(minutes=-20)):
        found = installation.faults()

    ((level, where, text, remedy),) = found["certificate"]
    assert (level, where, remedy) == ("problem", urlsplit(installation.service.url).netloc, _RENEWED)
    assert text.startswith("CN=127.0.0.1 expired on ")
    assert " UTC, 20 minutes ago; checked against the caBundle of " in text
    ((level, _, text, _),) = found["probe"]
    assert level == "problem"
    assert "certificate has expired" in text


@contextmanager
def _shown_instead(installation: Installation, left: timedelta) -> Iterator[None]:
    """Where the service should be, somebody shows a certificate of its CA that ends in so much time from now."""
    directory = installation.service.directory / "certs"
    stored = {name: (directory / name).read_bytes() for name in ("ca.crt", "ca.key")}
    authority = usable_authority(stored, datetime.now(UTC))
    assert authority is not None
    with installation.stopped():
        moment = datetime.now(UTC) - timedelta(minutes=30)  # its own CA is an hour old at least, by its dates
        leaf = authority.issue(["127.0.0.1"], moment, lifetime=left + timedelta(minutes=30))
        with https(leaf, BaseHTTPRequestHandler, urlsplit(installation.service.url).port or 0):
            yield


@contextmanager
def https(leaf: Leaf, handler: type[BaseHTTPRequestHandler], port: int = 0) -> Iterator[int]:
    """A server that shows a certificate, and answers nothing but what the handler does; yields its port."""
    serving = ServingContext()
    serving.swap(leaf.cert_pem, leaf.key_pem)
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        server.socket = serving.context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
