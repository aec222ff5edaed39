"""The guard as files of kube-apiserver: from its first request on, and out of the reach of a cluster-admin."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import pytest
from click.testing import CliRunner

from certs.material import new_authority
from cluster import toolchain, workloads
from cluster.apicalls import MERGE_PATCH, Answer, Caller
from cluster.controlplane import ControlPlane
from cluster.process import ComponentError
from cluster.programs import CONTROL_PLANE, judged_as
from cluster.service import registered
from cluster.test_doctor import Installation
from cluster.test_labelpolicy import WORDS, entries
from cluster.test_labelwriters import LABEL, gadgets, mutating
from policies.guard import ASK
from policies.labels import USE_OWN_PREFIX
from webhook.cli.main import main
from webhook.configuration.settings import Settings
from webhook.registration.configurations import STATIC, static_policies

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(not judged_as().reserves_static_names, reason="it reads no policies from files")

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
GUARD = f"cks-admission{STATIC}"
DENY = {"guard": {"admission": "deny"}}


class Cluster(NamedTuple):
    """A control plane with files, and where they are."""

    control_plane: ControlPlane
    caller: Caller
    files: Path

    @property
    def file(self) -> Path:
        """Where the policies are."""
        return self.files / "ValidatingAdmissionPolicy" / "cks-admission.yaml"

    def refusal(self, user: str = "alice") -> str:
        """What the API server says of a reserved label, in a dry run; nothing if it admits it."""
        labelled = workloads.config_map("default", labels={LABEL: "true"})
        answer = self.caller.send("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", labelled, user=user)
        return str(answer.body["message"]) if answer.code == 403 else ""

    def becomes(self, text: str) -> str:
        """The refusal, once a text is in it."""
        return self.control_plane.wait_until(f"a refusal with {text}", self.refusal, lambda refusal: text in refusal)


def exported(files: Path, settings: object, *arguments: str) -> None:
    """Write the files for settings."""
    chosen = files / "cks.json"
    chosen.write_text(json.dumps(settings))
    result = CliRunner().invoke(main, ["export", "static", "--config", str(chosen), "-o", str(files), *arguments])
    assert (result.exit_code, result.stdout) == (0, ""), result.output


def binding(settings: object) -> str:
    """The name that the binding has in files for these settings."""
    return f"{static_policies(Settings.model_validate(settings))[1]['metadata']['name']}{STATIC}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane that comes up from nothing with the guard, and webhooks that nobody answers."""
    files = tmp_path_factory.mktemp("static")
    (files / "ca.crt").write_bytes(new_authority(datetime.now(UTC)).cert_pem)
    exported(files, DENY, "--webhooks", "https://127.0.0.1:1", "--ca-file", str(files / "ca.crt"))
    with (
        ControlPlane(toolchain.ensure(CONTROL_PLANE), admission=files / "admission.yaml") as control_plane,
        Caller(control_plane) as caller,
    ):
        yield Cluster(control_plane, caller, files)


def test_it_guards_from_nothing(cluster: Cluster) -> None:
    """Nodes and Pods run, no policy is registered, and a reserved label is refused in the words of the guard."""
    control_plane = cluster.control_plane
    control_plane.node("n")
    control_plane.objects.apply(workloads.apps("Deployment", "default"), user="alice")

    def running() -> bool:
        pods = control_plane.get("pods", "-n", "default")["items"]
        return bool(pods) and all(pod["status"].get("phase") == "Running" for pod in pods)

    control_plane.wait_for("a Pod to run", running)
    refusal = cluster.refusal()
    assert control_plane.get("validatingadmissionpolicies")["items"] == []
    words = WORDS.replace("'cks-admission'", f"'{GUARD}'", 1).replace("'cks-admission'", f"'{binding(DENY)}'")
    assert words in refusal
    assert refusal.endswith(USE_OWN_PREFIX)


def attempts() -> dict[str, tuple[str, str, object]]:
    """What alice, a cluster-admin, tries: method, path and body."""
    policies, bindings = f"{ADMISSION}/validatingadmissionpolicies", f"{ADMISSION}/validatingadmissionpolicybindings"
    policy, bound, *_ = static_policies(Settings())
    shadow = {
        **policy,
        "metadata": {"name": GUARD},
        "spec": {**policy["spec"], "validations": [{"expression": "true"}]},
    }
    of_policy, of_binding = mutating("default")
    hooks = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "a"},
        "webhooks": [
            {
                "name": "a.example.org",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "sideEffects": "None",
            }
        ],
    }
    client = {"clientConfig": {"url": "https://127.0.0.1:1/"}, "conversionReviewVersions": ["v1"]}
    definition = gadgets({"strategy": "Webhook", "webhook": client})
    namespace = {"metadata": {"name": "mine", "labels": {"ns.coreweave.cloud/org": "control-plane"}}}
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    return {
        "delete": ("DELETE", f"{policies}/{GUARD}", None),
        "edit": ("PATCH", f"{policies}/{GUARD}", {"spec": {"failurePolicy": "Ignore"}}),
        "unbind": ("DELETE", f"{bindings}/{binding(DENY)}", None),
        "shadow": ("POST", policies, shadow),
        "shadow the binding": ("POST", bindings, {**bound, "metadata": {"name": binding(DENY)}}),
        "be exempt": ("POST", "/api/v1/namespaces", namespace),
        "mutate": ("POST", f"{ADMISSION}/mutatingadmissionpolicies", of_policy),
        "bind": ("POST", f"{ADMISSION}/mutatingadmissionpolicybindings", of_binding),
        "call": ("POST", f"{ADMISSION}/mutatingwebhookconfigurations", hooks),
        "rewrite": ("PATCH", f"{ADMISSION}/mutatingadmissionpolicies/cloud", {"spec": {"failurePolicy": "Ignore"}}),
        "annotate": (
            "PATCH",
            f"{ADMISSION}/mutatingadmissionpolicies/cloud",
            {"metadata": {"annotations": {"a": "b"}}},
        ),
        "convert": ("POST", definitions, definition),
        "define": ("POST", definitions, gadgets({"strategy": "None"})),
    }


def test_a_cluster_admin_cannot_get_round_it(cluster: Cluster) -> None:
    """Nothing of it can be deleted, edited or shadowed, and nothing be written that changes what others write."""

    def tried(user: str) -> dict[str, Answer]:
        return {
            name: cluster.caller.send(
                method,
                f"{path}?dryRun=All",
                body,  # type: ignore[arg-type]
                user=user,
                content_type=MERGE_PATCH if method == "PATCH" else "application/json",
            )
            for name, (method, path, body) in attempts().items()
        }

    (policy, _) = mutating("default")
    cluster.control_plane.objects.create({**policy, "metadata": {"name": "cloud"}})
    by_alice = tried("alice")
    assert {name: answer.code for name, answer in by_alice.items()} == {
        "delete": 404,
        "edit": 404,
        "unbind": 404,
        "shadow": 422,
        "shadow the binding": 422,
        "be exempt": 403,
        "mutate": 403,
        "bind": 403,
        "call": 403,
        "rewrite": 403,
        "annotate": 200,
        "convert": 403,
        "define": 201,
    }
    refused = f"'cks-admission-admission{STATIC}'"
    sentence = f"MutatingAdmissionPolicy may put reserved labels where no rule sees them. {ASK}"
    assert (
        by_alice["mutate"]
        .body["message"]
        .endswith(f"ValidatingAdmissionPolicy {refused} with binding {refused} denied request: {sentence}")
    )
    cluster.control_plane.namespace("cks-admission")
    cluster.control_plane.service_account("cks-admission", "manage", "cluster-admin")
    exempt = tried("system:serviceaccount:cks-admission:manage")
    assert {exempt[name].code for name in ("mutate", "bind", "call", "convert")} == {201}


def test_the_service_writes_no_second_one(cluster: Cluster) -> None:
    """Neither a policy nor an entry is registered beside the files, and doctor has nothing to say of it."""
    exported(cluster.files, DENY)
    settings = {**DENY, "labels": {"enforcedBy": "static"}, "organization": {}}
    with registered(cluster.control_plane, **settings) as service:
        # It writes its own until files have refused a dry run for a while.
        cluster.control_plane.wait_for(
            "the service to rely on the files",
            lambda: (
                cluster.control_plane.get("validatingadmissionpolicies")["items"] == []
                and not any("labels" in name for name in entries(cluster.control_plane))
            ),
        )
        faults = Installation(cluster.control_plane, service).faults()
        assert {"registration", "probe"} & {*faults} == set(), faults


def test_files_are_replaced(cluster: Cluster) -> None:
    """A good file is in force soon; a broken one is not, but ends the next start; without files there is no guard."""
    before = cluster.becomes(binding(DENY))
    lenient = {
        "guard": {"admission": "warn"},
        "labels": {"exceptions": [{"key": "a.coreweave.com/b", "kinds": ["Pod"]}]},
    }
    exported(cluster.files, lenient)
    assert cluster.becomes(binding(lenient)) != before
    (policy, _) = mutating("default")
    answer = cluster.caller.send("POST", f"{ADMISSION}/mutatingadmissionpolicies?dryRun=All", policy, user="alice")
    (warning,) = answer.warnings
    assert (answer.code, warning.partition(": its ")[2].partition(". ")[0]) == (
        201,
        f"expressions name reserved labels: {LABEL}",
    )

    whole = cluster.file.read_text()
    broken = cluster.file.with_name("broken.yaml")
    broken.write_text("kind: Nothing\n")
    api = "kube-apiserver"
    cluster.control_plane.wait_for(
        "it to be read", lambda: "reloading manifest config" in cluster.control_plane.logs(api)
    )
    assert binding(lenient) in cluster.refusal()
    with pytest.raises(ComponentError, match=r"broken\.yaml"):
        cluster.control_plane.restart_api_server()
    broken.unlink()
    cluster.control_plane.restart_api_server()
    assert binding(lenient) in cluster.refusal()
    cluster.file.unlink()
    cluster.control_plane.wait_for("no guard", lambda: not cluster.refusal())
    cluster.file.write_text(whole)
    cluster.becomes(binding(lenient))
