"""The shipped packs, served: what a person reads in kubectl, compared with kube-apiserver's own answers."""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING

import pytest
from support.packmodes import OFF
from support.policies import packs

from cluster import manifests, workloads
from cluster.packscenarios import INTERRUPTABLE, LABEL, SCENARIOS, TOLERATIONS, around, inference
from cluster.polling import NotYet
from cluster.service import registered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.controlplane import ControlPlane
    from cluster.kubectl import Completed
    from cluster.manifests import Manifest
    from cluster.packscenarios import Labels, Scenario
    from cluster.service import Service

TEAM, NATIVE = "team-a", "team-native"
# On the Namespace in which kube-apiserver enforces the packs as well: its own policies come before any webhook.
JUDGED = {"example.org/judged": "natively"}
TOLERATING = {
    f"{kind}-{number}": (around(kind, {}, tolerations=some), said)
    for number, (kind, some, said) in enumerate(TOLERATIONS)
}
# What kube-apiserver judges without the service: workloads by the policies about these, and Pods.
PODS = {
    f"Pod-{number}": (workloads.pod("", tolerations=some), said)
    for number, (kind, some, said) in enumerate(TOLERATIONS)
    if kind == "Deployment"
}
REFUSED = {each.name: each.made(INTERRUPTABLE) for each in SCENARIOS if not each.places} | {
    name: manifest for name, (manifest, said) in PODS.items() if "Error" in said
}
WARNED = {name: manifest for name, (manifest, said) in PODS.items() if "Warning" in said}


@pytest.fixture(scope="module")
def served(judged: ControlPlane) -> Iterator[Service]:
    """A service that enforces the packs by its settings, and the kinds that its users have.

    Else it would leave policies to kube-apiserver that this has, too.
    """
    with registered(judged, packs=dict.fromkeys(OFF, "enforce"), policies={"native": False}) as service:
        plane = service.control_plane
        plane.namespace(TEAM)
        for kind, group, version in (("PyTorchJob", "kubeflow.org", "v1"), ("JobSet", "jobset.x-k8s.io", "v1alpha2")):
            plane.objects.apply(manifests.custom_resource(kind, group, version))
        for scenario in SCENARIOS[:2]:
            plane.wait_for(scenario.name, partial(_is_served, service, scenario.made({})))
        yield service


def _is_served(service: Service, manifest: Manifest) -> bool:
    answer = _apply(service, manifest)
    if answer.returncode != 0:
        raise NotYet(answer.stderr)
    return True


def _apply(service: Service, manifest: Manifest, namespace: str = TEAM) -> Completed:
    return service.control_plane.apply(manifest, "-n", namespace, "--dry-run=server")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[each.name for each in SCENARIOS])
def test_what_must_not_be_interruptable(served: Service, scenario: Scenario) -> None:
    """The object that a person applied is refused, with paths into it, where it has the label, and else admitted."""
    labelled, unlabelled = (_apply(served, scenario.made(labels)) for labels in (INTERRUPTABLE, {}))

    assert (labelled.returncode, labelled.stdout, labelled.stderr) == (1, "", scenario.refusal)
    assert (unlabelled.returncode, unlabelled.stderr) == (0, "")


@pytest.mark.parametrize(("labels", "verdict"), [({}, "audit"), (INTERRUPTABLE, "admit"), ({LABEL: "false"}, "admit")])
def test_inference_that_could_be_interruptable(served: Service, labels: Labels, verdict: str) -> None:
    """GPU inference that does not say what it is, is on record, and nobody is bothered."""
    answer = _apply(served, inference(labels, 30))

    decisions = [event["decisions"] for event in served.events("review")]
    decided = [each["interruptable-candidate"][0] for each in decisions if "interruptable-candidate" in each]
    assert (answer.returncode, answer.stderr, decided[-1]) == (0, "", verdict)


@pytest.mark.parametrize(("manifest", "said"), TOLERATING.values(), ids=TOLERATING)
def test_tolerations(served: Service, manifest: Manifest, said: str) -> None:
    """A toleration of what is not one's own is refused or warned about, all that there are at once."""
    answer = _apply(served, manifest)

    assert (answer.returncode, answer.stderr) == (1 if "Error" in said else 0, said)


def test_refusals_of_two_policies(served: Service) -> None:
    """Where two policies refuse, kubectl shows both, for all packs fail open and so share an entry."""
    (drain,) = (each for each in SCENARIOS if each.name == "inference that drains too long")
    slow, reserved = drain.made(INTERRUPTABLE), TOLERATIONS[0]
    slow["spec"]["template"]["spec"]["tolerations"] = reserved[1]

    told = _apply(served, slow).stderr.splitlines()
    texts = [text.partition(" denied the request: ")[2].splitlines() for text in (drain.refusal, reserved[2])]
    assert [line for lines in texts for line in lines if line not in "\n".join(told)] == []


def test_by_default_they_warn(served: Service) -> None:
    """What the packs refuse is admitted with a warning, and the toleration of one's own reservation without any."""
    reserved = {"key": "node.coreweave.cloud/reserved", "operator": "Equal", "value": "mine"}
    with served.configured(packs={}, organization={"reservedHash": "mine"}):
        own, *others = (
            _apply(served, manifest)
            for manifest in (around("Deployment", {}, tolerations=[reserved]), *REFUSED.values())
        )

    assert (own.returncode, own.stderr) == (0, "")
    assert [answer.stderr for answer in others if answer.returncode != 0 or "Warning: " not in answer.stderr] == []


def test_an_outage_refuses_nothing(served: Service) -> None:
    """While no replica runs, what the packs would refuse is admitted like everything else."""
    (drain,) = (each for each in SCENARIOS if each.name == "inference that drains too long")
    served.kill()
    try:
        answers = [_apply(served, manifest) for manifest in (around("Deployment", {}), drain.made(INTERRUPTABLE))]
    finally:
        served.start()

    assert [(answer.returncode, answer.stderr) for answer in answers] == [(0, ""), (0, "")]


@pytest.fixture(scope="module")
def native(served: Service) -> Iterator[Service]:
    """The same service with the packs in kube-apiserver, too, for one Namespace."""
    served.control_plane.namespace(NATIVE, JUDGED)
    documents = [_narrowed(document) for policy in packs.shipped() for document in policy.documents]
    served.control_plane.objects.apply(documents)
    yield served
    served.control_plane.objects.delete_manifests(documents)


def _narrowed(document: Manifest) -> Manifest:
    """A document with its binding for the one Namespace."""
    found = copy.deepcopy(document)
    if found["kind"].endswith("Binding"):
        found["spec"]["matchResources"]["namespaceSelector"]["matchLabels"] = JUDGED
    return found


@pytest.mark.parametrize("manifest", REFUSED.values(), ids=REFUSED)
def test_what_kube_apiserver_refuses(native: Service, manifest: Manifest) -> None:
    """Where kube-apiserver refuses by its first violation, the service refuses too, and has that word for word."""
    first = _said(native, manifest, " is forbidden: ")
    ours = _apply(native, manifest)

    lines = ours.stderr.partition(" denied the request: ")[2].splitlines()
    assert (ours.returncode, [line for line in lines if line == first]) == (1, [first])


@pytest.mark.parametrize("manifest", WARNED.values(), ids=WARNED)
def test_what_kube_apiserver_warns_of(native: Service, manifest: Manifest) -> None:
    """A warning of kube-apiserver is one of the service: the policy's name and the message."""
    start = "Warning: Validation failed for ValidatingAdmissionPolicy "
    policy, message = _said(native, manifest, start).replace("'", "").split(" with binding ")

    assert _apply(native, manifest).stderr == f"Warning: {policy}: {message.removeprefix(f'{policy}: ')}\n"


def _said(service: Service, manifest: Manifest, before: str) -> str:
    """The line that kube-apiserver says itself, from some words on, once it knows the policies."""

    def found() -> str:
        answer = _apply(service, manifest, NATIVE)
        if before not in answer.stderr or "failed to configure" in answer.stderr:  # its parameters are not read yet
            raise NotYet(answer.stderr)
        return answer.stderr.partition(before)[2].splitlines()[0]

    return service.control_plane.wait_for("kube-apiserver to know the policies", found)
