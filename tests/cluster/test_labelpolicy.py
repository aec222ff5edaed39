"""The guard as a policy that the API server enforces itself: it refuses in our words with every process dead."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cluster import crds, workloads
from cluster.apicalls import Caller
from cluster.bypass.target import ORDINARY, RESERVED, Target, kinds, of, places
from cluster.bypass.ways import ALL
from cluster.test_bypass import written
from policies.labels import USE_OWN_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.controlplane import ControlPlane
    from cluster.service import Service

NAME = "cks-admission"
WORDS = (
    f"ValidatingAdmissionPolicy '{NAME}' with binding '{NAME}' denied request: "
    "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed. "
)
VALIDATING = "validatingwebhookconfiguration"


def entries(control_plane: ControlPlane) -> list[str]:
    """Return the names of the validating entries."""
    return [entry["name"] for entry in control_plane.get(VALIDATING, NAME)["webhooks"]]


@pytest.fixture(scope="module", autouse=True)
def caller(control_plane: ControlPlane, service: Service) -> Iterator[Caller]:
    """A connection to the API server, once the guard has moved from the webhook to the policy."""
    crds.install(control_plane, crds.JOB_SET)
    before = entries(control_plane)
    with service.configured(labels={"enforcedBy": "policy"}), Caller(control_plane) as connection:
        left = control_plane.wait_until(
            "the guard to move", lambda: entries(control_plane), lambda left: "labels.cks-admission.dev" not in left
        )
        assert sorted({*before} - {*left}) == ["cluster-labels.cks-admission.dev", "labels.cks-admission.dev"]
        yield connection

    def back() -> bool:
        """The policy is gone, and the API server, which goes by it for another moment, asks the webhook."""
        if control_plane.kubectl("get", "validatingadmissionpolicy", NAME).returncode == 0:
            return False
        refused = control_plane.apply(workloads.config_map("default", labels={RESERVED: "true"}), "--dry-run=server")
        return "admission webhook" in refused.stderr

    control_plane.wait_for("the guard to move back", back)
    assert entries(control_plane) == before
    crds.remove(control_plane, crds.JOB_SET)


def test_what_somebody_does_to_it_is_repaired(control_plane: ControlPlane, service: Service, caller: Caller) -> None:
    """Whoever edits or deletes the policy or its binding has it back, and it is in force a moment later."""
    kinds_of = ("validatingadmissionpolicy", "validatingadmissionpolicybinding")
    before = [control_plane.get(kind, NAME)["spec"] for kind in kinds_of]
    never = [{"name": "never", "expression": "false"}, *before[0]["matchConditions"]]
    patch = json.dumps({"spec": {"failurePolicy": "Ignore", "matchConditions": never}})
    control_plane.kubectl("patch", kinds_of[0], NAME, "--type=merge", "-p", patch)
    control_plane.objects.delete(kinds_of[1], NAME)

    def repaired() -> bool:
        found = [control_plane.kubectl("get", kind, NAME, "-o", "json").stdout for kind in kinds_of]
        return [json.loads(text)["spec"] if text else None for text in found] == before

    control_plane.wait_for("the policy to be as it was", repaired)
    assert service.events("registration repaired")
    labelled = workloads.config_map("default", labels={RESERVED: "true"})

    def in_force() -> bool:
        return (
            caller.send("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", labelled, user="alice").code == 403
        )

    control_plane.wait_for("the API server to go by it again", in_force)


@pytest.fixture(scope="module")
def dead(service: Service, caller: Caller) -> Iterator[Caller]:
    """The same with every process of ours dead."""
    service.kill()
    yield caller
    service.start()


def test_every_kind_is_refused_in_words(dead: Caller, namespace: str) -> None:
    """A reserved label is refused at every place, which is named, and an ordinary one passes."""
    known = kinds(dead)
    answers: dict[tuple[str, str], tuple[int, str]] = {}
    for key in (RESERVED, ORDINARY):
        for place, manifest in places(namespace, key).items():
            manifest["metadata"]["name"] = f"words-{len(answers)}"
            path = of(known, manifest).resource.path(manifest["metadata"].get("namespace", ""))
            answer = dead.send("POST", f"{path}?dryRun=All", manifest, user="alice")
            answers[place, key] = answer.code, answer.body.get("message", "")

    assert {place for (place, key), (status, _) in answers.items() if key == ORDINARY and status != 201} == set()
    assert {
        place: said
        for (place, key), said in answers.items()
        if key == RESERVED and not (said[0] == 403 and WORDS in said[1] and said[1].endswith(USE_OWN_PREFIX))
    } == {}


@pytest.mark.parametrize("way", ALL, ids=[way.__name__ for way in ALL])
def test_no_way_round(dead: Caller, namespace: str, way: Callable[[Target], None]) -> None:
    """A reserved label is written at no place by any way that the webhook is proven against."""
    assert written(dead, namespace, way, RESERVED) == set()
