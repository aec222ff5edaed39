"""Annotations that change: whichever way a write takes, the stored object is the user's manifest, translated again.

The ways: kubectl apply, kubectl apply --server-side, kubectl replace, and a program that reads the object, changes it
and puts it back. Deployments without replicas suffice, because only their controller acts on them.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from cluster import placements
from cluster.apicalls import Caller
from cluster.placements import MAY, MUST, PREFERRED, RECORD, REQUIRED, TOPOLOGY, annotated, answer_of, one_of, required
from cluster.polling import NotYet
from cluster.topologychanges import CHANGES, OWN, another_domain, no_annotations, pod_spec
from cluster.topologynodes import BACKEND, IB

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


@pytest.fixture(scope="module")
def caller(control_plane: ControlPlane) -> Iterator[Caller]:
    """A connection, for what needs no kubectl."""
    with Caller(control_plane) as opened:
        yield opened


def path(manifest: Manifest) -> str:
    """Return the address of an object."""
    metadata, kind = manifest["metadata"], manifest["kind"]
    return f"/apis/{GROUPS[kind]}/v1/namespaces/{metadata['namespace']}/{kind.lower()}s/{metadata['name']}"


def stored(caller: Caller, manifest: Manifest) -> Manifest:
    """Return an object as it is in the API server."""
    return caller.send("GET", path(manifest)).body


def outcome(found: Manifest) -> tuple[Any, Any]:
    """Return the affinity of an object's template, and the terms of it that the record tells of."""
    record = json.loads(found["metadata"].get("annotations", {}).get(RECORD, "{}"))
    terms = {
        place: {name: told for name, told in entry.items() if name in ("required", "preferred")}
        for place, entry in record.items()
    }
    return pod_spec(found).get("affinity"), terms


def afresh(caller: Caller, manifest: Manifest) -> tuple[Any, Any]:
    """Return what would be stored if the object were new."""
    new = copy.deepcopy(manifest)
    new["metadata"]["name"] = f"{manifest['metadata']['name']}-afresh"
    return outcome(caller.make(f"{path(manifest).rpartition('/')[0]}?dryRun=All", new))


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
@pytest.mark.parametrize("name", CHANGES, ids=lambda name: name.replace(",", "").replace(" ", "-"))
def test_stored_is_what_the_manifest_says(
    control_plane: ControlPlane, caller: Caller, place: str, name: str, manner: str
) -> None:
    """After a change, affinity and record are those of a new object; without annotations nothing of them is left."""
    change = CHANGES[name]
    made = placements.deployment(place, f"{list(CHANGES).index(name)}-{manner}", **affinity(own=change.own))
    manifest = annotated(made, "fabric=f1,superpod=1", "fabric=f1,superpod=1,rack=r2")

    follow(control_plane, caller, manner, manifest, change.make)

    assert outcome(stored(caller, manifest)) == afresh(caller, manifest)
    put(caller, manifest, no_annotations)
    assert outcome(stored(caller, manifest)) == (pod_spec(manifest).get("affinity"), {})


@pytest.mark.parametrize("manner", COMMANDS)
@pytest.mark.parametrize("make", [stateful_set, cron_job])
def test_other_kinds_follow_too(
    control_plane: ControlPlane, caller: Caller, place: str, make: Callable[..., Manifest], manner: str
) -> None:
    """A StatefulSet and a CronJob get the new domain, and are as their manifest without annotations."""
    manifest = annotated(
        make(place, f"other-{manner}", **affinity(own=True)), "fabric=f1,superpod=1", "fabric=f1,superpod=1,rack=r2"
    )

    follow(control_plane, caller, manner, manifest, another_domain)

    assert outcome(stored(caller, manifest)) == afresh(caller, manifest)
    put(caller, manifest, no_annotations)
    assert outcome(stored(caller, manifest)) == (OWN, {})


def affinity(*, own: bool) -> dict[str, Any]:
    """Return the part of a Pod spec with terms of the user's own, or nothing."""
    return {"affinity": copy.deepcopy(OWN)} if own else {}


@pytest.mark.parametrize(
    ("manner", "said"),
    [("apply", "configured"), ("server-side", "serverside-applied"), ("replace", "replaced"), ("put", "")],
    ids=COMMANDS,
)
def test_the_same_again_changes_nothing(
    control_plane: ControlPlane, caller: Caller, place: str, manner: str, said: str
) -> None:
    """The same manifest leaves what is stored as it is, down to who owns which field."""
    manifest = annotated(
        placements.deployment(place, f"same-{manner}", **affinity(own=True)), "fabric=f1,superpod=1", "rack"
    )
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
        assert after["metadata"]["annotations"][RECORD] == before["metadata"]["annotations"][RECORD]
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
    """The user's manager owns annotations and required terms; the record and the preferences belong to nobody."""
    manifest = annotated(placements.deployment(place, "owned", **affinity(own=True)), "fabric=f1,superpod=1", "rack=r2")
    follow(control_plane, caller, "server-side", manifest, another_domain)

    found = stored(caller, manifest)

    entries = {each["manager"]: each["fieldsV1"] for each in found["metadata"]["managedFields"]}
    mine = entries["kubectl"]
    assert mine["f:metadata"] == {"f:annotations": {f"f:{key}": {} for key in (TOPOLOGY, REQUIRED, PREFERRED)}}
    assert mine["f:spec"]["f:template"]["f:spec"]["f:affinity"] == {"f:nodeAffinity": {f"f:{MUST}": {}}}
    assert MAY in pod_spec(found)["affinity"]["nodeAffinity"]
    assert not [name for name, fields in entries.items() if RECORD in json.dumps(fields) or MAY in json.dumps(fields)]


def test_change_of_the_manner_conflicts_in_own_terms_only(
    control_plane: ControlPlane, caller: Caller, place: str
) -> None:
    """From client-side to server-side apply: terms of the user's own, which became others, need --force-conflicts."""
    both = [
        annotated(placements.deployment(place, f"moved-{own}", **affinity(own=own == "own")), "fabric=f1,superpod=1")
        for own in ("none", "own")
    ]
    for manifest in both:
        run(control_plane, "apply", manifest)

    none, own = (run(control_plane, "apply --server-side", manifest) for manifest in both)
    forced = run(control_plane, "apply --server-side --force-conflicts", both[1])

    terms = ".spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    first = f'error: Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using apps/v1: {terms}'
    assert answer_of(none) == answer_of(forced) == (0, "")
    assert (own.returncode, own.stderr.splitlines()[0]) == (1, first)
    assert [outcome(stored(caller, each)) for each in both] == [afresh(caller, each) for each in both]


def test_diff_shows_nothing(control_plane: ControlPlane, caller: Caller, place: str) -> None:
    """What kubectl diff compares with is what the service would make of the manifest, so there is nothing to see."""
    manifest = annotated(placements.deployment(place, "diff", **affinity(own=True)), "fabric=f1,superpod=1", "rack")
    run(control_plane, "apply", manifest)
    settled(control_plane, caller, manifest)

    assert answer_of(run(control_plane, "diff", manifest)) == (0, "")


def test_rollback_of_a_deployment(control_plane: ControlPlane, caller: Caller, place: str) -> None:
    """A rollout undone brings back annotations, record and template together."""
    manifest = annotated(placements.deployment(place, "undone"), "fabric=f1,superpod=1", "rack=r2")
    run(control_plane, "create", manifest)
    before = outcome(settled(control_plane, caller, manifest))
    put(caller, manifest, another_domain)
    settled(control_plane, caller, manifest)

    control_plane.kubectl("rollout", "undo", "deployment/undone", "-n", place, check=True)

    assert outcome(stored(caller, manifest)) == before
    put(caller, manifest, no_annotations)
    assert outcome(stored(caller, manifest)) == (None, {})


def test_rollback_of_a_stateful_set(control_plane: ControlPlane, caller: Caller, place: str) -> None:
    """A rollout undone brings back the template alone, and the annotations still say where the Pods go."""
    manifest = annotated(stateful_set(place, "undone"), "fabric=f1,superpod=1", "rack=r2")
    run(control_plane, "create", manifest)
    revisions(control_plane, place, 1)
    another_domain(manifest)
    run(control_plane, "replace", manifest)
    revisions(control_plane, place, 2)

    control_plane.kubectl("rollout", "undo", "statefulset/undone", "-n", place, check=True)

    assert outcome(stored(caller, manifest)) == afresh(caller, manifest)


def revisions(control_plane: ControlPlane, namespace: str, count: int) -> None:
    """Wait until the controller has noted so many templates of the StatefulSet that is rolled back."""

    def noted() -> bool:
        found = control_plane.get("controllerrevisions", "-n", namespace, "-l", "app=undone")["items"]
        if len(found) != count:
            raise NotYet(f"{[each['metadata']['name'] for each in found]}")
        return True

    control_plane.wait_for(f"{count} revisions", noted)


def test_domain_is_written_as_documented(control_plane: ControlPlane, caller: Caller, place: str) -> None:
    """The terms of a domain, and the record of them, to the letter: what the other proofs compare with."""
    manifest = annotated(placements.deployment(place, "letter", affinity=required([one_of("a", "b")])), "superpod=1")

    run(control_plane, "apply", manifest)

    expressions = [[one_of("a", "b"), one_of(f"{prefix}/superpod", "1")] for prefix in (BACKEND, IB)]
    written = {"to": [{"matchExpressions": each} for each in expressions]}
    origin = {"from": {"matchExpressions": [one_of("a", "b")]}}
    expected = {"spec.template": {"required": [{**written, **origin}]}}
    assert outcome(stored(caller, manifest)) == (required(*expressions), expected)
