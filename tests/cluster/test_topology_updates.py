"""Annotations that change: whichever way a write takes, the templates have them as those of a new object would.

Nothing else is written into templates. The ways: kubectl apply, kubectl apply --server-side, kubectl replace, and a
program that reads the object, changes it and puts it back. Deployments without replicas suffice, because only their
controller acts on them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from cluster import placements
from cluster.apicalls import Caller
from cluster.placements import PREFERRED, REQUIRED, TOPOLOGY, annotated, answer_of, one_of, preferring, required
from cluster.polling import NotYet
from cluster.topologynodes import RACK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.controlplane import ControlPlane
    from cluster.kubectl import Completed
    from cluster.manifests import Manifest

pytestmark = pytest.mark.usefixtures("topology_nodes")

COMMANDS = {
    "apply": ("apply", "apply"),
    "server-side": ("apply --server-side", "apply --server-side"),
    "replace": ("create", "replace"),
    "put": ("create", ""),
}
GROUPS = {"Deployment": "apps", "StatefulSet": "apps", "CronJob": "batch"}
KEYS = (TOPOLOGY, REQUIRED, PREFERRED)
BEFORE = ("fabric=f1,superpod=1", "fabric=f1,superpod=1,rack=r2")
OWN = required([one_of(RACK, "r1", "r2")], [one_of("kubernetes.io/hostname", "old-f1-s1")])
OWN["nodeAffinity"][placements.MAY] = [preferring(one_of(RACK, "r1"), weight=7)]


def another_domain(manifest: Manifest) -> None:
    """Name another domain, and another preference."""
    manifest["metadata"]["annotations"] |= placements.asking("fabric=f1,superpod in (2, 3)", "rack=r3")


def another_topology(manifest: Manifest) -> None:
    """Name another topology, which requires a flavor as well."""
    manifest["metadata"]["annotations"][TOPOLOGY] = "coreweave-infiniband"


def no_preference(manifest: Manifest) -> None:
    """Take one of the annotations away."""
    del manifest["metadata"]["annotations"][PREFERRED]


def no_annotations(manifest: Manifest) -> None:
    """Take all three away, and leave what tools have written."""
    for key in KEYS:
        manifest["metadata"].get("annotations", {}).pop(key, None)


CHANGES = (another_domain, another_topology, no_preference)


def template_of(manifest: Manifest) -> Manifest:
    """Return a workload's pod template."""
    spec = manifest["spec"]
    found: Manifest = spec.get("jobTemplate", {"spec": spec})["spec"]["template"]
    return found


def stateful_set(namespace: str, name: str, **spec: Any) -> Manifest:
    """Return a StatefulSet without replicas."""
    made = placements.deployment(namespace, name, **spec)
    return {**made, "kind": "StatefulSet", "spec": {**made["spec"], "serviceName": "main"}}


def cron_job(namespace: str, name: str, **spec: Any) -> Manifest:
    """Return a CronJob that starts nothing."""
    made = placements.job(namespace, name, **spec)
    spec = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": made["spec"]}}
    return {**made, "kind": "CronJob", "spec": spec}


@pytest.fixture(scope="module")
def place(control_plane: ControlPlane) -> Iterator[str]:
    """A Namespace for the module."""
    namespace = "topology-updates"
    control_plane.namespace(namespace)
    yield namespace
    control_plane.objects.delete("namespace", namespace)


def path(manifest: Manifest) -> str:
    """Return the address of an object."""
    metadata, kind = manifest["metadata"], manifest["kind"]
    return f"/apis/{GROUPS[kind]}/v1/namespaces/{metadata['namespace']}/{kind.lower()}s/{metadata['name']}"


def stored(caller: Caller, manifest: Manifest) -> Manifest:
    """Return an object as it is in the API server."""
    return caller.send("GET", path(manifest)).body


def outcome(found: Manifest) -> tuple[Any, Any]:
    """Return what an object's template says about placement, and its affinity, which is the user's own."""
    template = template_of(found)
    annotations = template["metadata"].get("annotations", {})
    return {key: annotations[key] for key in KEYS if key in annotations}, template["spec"].get("affinity")


def expected(manifest: Manifest) -> tuple[Any, Any]:
    """Return what the template of a new object would say: the annotations of the workload."""
    return manifest["metadata"]["annotations"], outcome(manifest)[1]


def run(control_plane: ControlPlane, command: str, manifest: Manifest) -> Completed:
    """Run a kubectl command on a manifest; once more where the object's controller came between."""
    while True:
        answer = control_plane.kubectl(*command.split(), "-f", "-", input=json.dumps(manifest))
        if "the object has been modified" not in answer.stderr:
            return answer


def put(caller: Caller, manifest: Manifest, change: Callable[[Manifest], None]) -> None:
    """Read an object, change it and put it back; once more where its controller came between."""
    answer = None
    while answer is None or answer.code == 409:
        found = stored(caller, manifest)
        change(found)
        answer = caller.send("PUT", path(manifest), found)
    assert (answer.code, answer.warnings) == (200, ())


def follow(
    control_plane: ControlPlane, caller: Caller, manner: str, manifest: Manifest, change: Callable[[Manifest], None]
) -> None:
    """Create an object, and have a change follow; the manifest has the change afterwards."""
    first, second = COMMANDS[manner]
    assert answer_of(run(control_plane, first, manifest)) == (0, "")
    change(manifest)
    if second:
        assert answer_of(run(control_plane, second, manifest)) == (0, "")
    else:
        put(caller, manifest, change)


@pytest.mark.parametrize("manner", COMMANDS)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_template_says_what_the_manifest_says(
    control_plane: ControlPlane, caller: Caller, place: str, change: Callable[[Manifest], None], manner: str
) -> None:
    """After a change the templates have the workload's annotations; without annotations they have none."""
    name = f"{change.__name__.replace('_', '-')}-{manner}"
    manifest = annotated(placements.deployment(place, name, affinity=OWN), *BEFORE)

    follow(control_plane, caller, manner, manifest, change)

    assert outcome(stored(caller, manifest)) == expected(manifest)
    put(caller, manifest, no_annotations)
    assert outcome(stored(caller, manifest)) == ({}, OWN)


@pytest.mark.parametrize("manner", COMMANDS)
@pytest.mark.parametrize("make", [stateful_set, cron_job])
def test_other_kinds_follow_too(
    control_plane: ControlPlane, caller: Caller, place: str, make: Callable[..., Manifest], manner: str
) -> None:
    """So it is with a StatefulSet and a CronJob."""
    manifest = annotated(make(place, f"other-{manner}"), *BEFORE)

    follow(control_plane, caller, manner, manifest, another_domain)

    assert outcome(stored(caller, manifest)) == expected(manifest)
    put(caller, manifest, no_annotations)
    assert outcome(stored(caller, manifest)) == ({}, None)


@pytest.mark.parametrize(
    ("manner", "said"),
    [("apply", "unchanged"), ("server-side", "serverside-applied"), ("replace", "replaced"), ("put", "")],
    ids=COMMANDS,
)
def test_the_same_again_changes_nothing(
    control_plane: ControlPlane, caller: Caller, place: str, manner: str, said: str
) -> None:
    """The same manifest leaves what is stored as it is, down to who owns which field."""
    manifest = annotated(placements.deployment(place, f"same-{manner}", affinity=OWN), "fabric=f1,superpod=1", "rack")
    first, second = COMMANDS[manner]
    run(control_plane, first, manifest)
    before = settled(control_plane, caller, manifest)

    if second:
        answer = run(control_plane, second, manifest)
        assert answer.stdout == f"deployment.apps/same-{manner} {said}\n"
    else:
        put(caller, manifest, lambda _: None)

    after = stored(caller, manifest)
    if manner == "replace":  # which takes the controller's annotation away, a change in itself
        assert after["spec"] == before["spec"]
    else:
        assert unversioned(after) == unversioned(before)


def unversioned(found: Manifest) -> Manifest:
    """Return an object without its version and the times of its managers.

    The API server orders managers by these, and writes an object anew where nothing but their order is another one.
    """
    metadata = {key: value for key, value in found["metadata"].items() if key != "resourceVersion"}
    managers = [{key: value for key, value in each.items() if key != "time"} for each in metadata["managedFields"]]
    metadata["managedFields"] = sorted(managers, key=lambda each: (each["manager"], each["operation"]))
    return {**found, "metadata": metadata}


def settled(control_plane: ControlPlane, caller: Caller, manifest: Manifest) -> Manifest:
    """Return a Deployment that its controller has no more to do with: it has said that the roll-out is complete."""

    def complete() -> Manifest:
        found = stored(caller, manifest)
        status = found["status"]
        reasons = [each["reason"] for each in status.get("conditions", ()) if each["type"] == "Progressing"]
        if status.get("observedGeneration") != found["metadata"]["generation"] or reasons != ["NewReplicaSetAvailable"]:
            raise NotYet(str(status))
        return found

    return control_plane.wait_for("the Deployment to rest", complete)


def test_server_side_apply_owns_what_it_wrote(control_plane: ControlPlane, caller: Caller, place: str) -> None:
    """The user's manager owns the workload's annotations, and nobody the copies; another manner is no conflict."""
    manifest = annotated(placements.deployment(place, "owned", affinity=OWN), *BEFORE)
    run(control_plane, "apply", manifest)
    answer = run(control_plane, "apply --server-side", manifest)

    entries = stored(caller, manifest)["metadata"]["managedFields"]
    mine = next(each["fieldsV1"] for each in entries if each["manager"] == "kubectl")
    assert answer_of(answer) == (0, "")
    assert mine["f:metadata"] == {"f:annotations": {f"f:{key}": {} for key in KEYS}}
    templates = [each["fieldsV1"].get("f:spec", {}).get("f:template", {}) for each in entries]
    assert not [each for each in templates if TOPOLOGY in json.dumps(each)]


def test_diff_shows_nothing(control_plane: ControlPlane, caller: Caller, place: str) -> None:
    """What kubectl diff compares with is what the service would make of the manifest, so there is nothing to see."""
    manifest = annotated(placements.deployment(place, "diff", affinity=OWN), "fabric=f1,superpod=1", "rack")
    run(control_plane, "apply", manifest)
    settled(control_plane, caller, manifest)

    assert answer_of(run(control_plane, "diff", manifest)) == (0, "")


def test_rollback_of_a_deployment(control_plane: ControlPlane, caller: Caller, place: str) -> None:
    """A rollout undone brings back annotations and template together."""
    manifest = annotated(placements.deployment(place, "undone"), "fabric=f1,superpod=1", "rack=r2")
    run(control_plane, "create", manifest)
    before = outcome(settled(control_plane, caller, manifest))
    put(caller, manifest, another_domain)
    settled(control_plane, caller, manifest)

    control_plane.kubectl("rollout", "undo", "deployment/undone", "-n", place, check=True)

    assert outcome(stored(caller, manifest)) == before


def test_rollback_of_a_stateful_set(control_plane: ControlPlane, caller: Caller, place: str) -> None:
    """A rollout undone brings back the template alone: it counts, and a warning says that the workload differs."""
    manifest = annotated(stateful_set(place, "undone"), "fabric=f1,superpod=1", "rack=r2")
    run(control_plane, "create", manifest)
    revisions(control_plane, place, 1)
    another_domain(manifest)
    run(control_plane, "replace", manifest)
    revisions(control_plane, place, 2)

    undone = control_plane.kubectl("rollout", "undo", "statefulset/undone", "-n", place, check=True)

    assert outcome(stored(caller, manifest)) == (placements.asking("fabric=f1,superpod=1", "rack=r2"), None)
    assert "Warning: " in undone.stderr, undone.stderr


def revisions(control_plane: ControlPlane, namespace: str, count: int) -> None:
    """Wait until the controller has noted so many templates of the StatefulSet that is rolled back."""
    control_plane.wait_until(
        f"{count} revisions",
        lambda: control_plane.get("controllerrevisions", "-n", namespace, "-l", "app=undone")["items"],
        lambda found: len(found) == count,
    )
