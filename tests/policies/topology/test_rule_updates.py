"""Updates by which nothing is asked that was not asked before: what was written stays."""

from __future__ import annotations

from copy import deepcopy

import pytest
from support.builders import FACTS, WORKLOADS, Json, request

from policies.objects import patch
from policies.topology.catalog import BUILT_IN, Catalog
from policies.topology.constraint import Default, Options
from policies.topology.document import read
from policies.topology.rule import TopologyPlacement

_HALL = "example.org/hall"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_OWN = {"matchExpressions": [{"key": "example.org/gpu", "operator": "Exists"}]}


def _rule(*levels: str) -> TopologyPlacement:
    """The rule where a topology `site` has these levels; without any there is none."""
    more = [read({"name": "site", "levels": list(levels)}, "a file")] if levels else []
    return TopologyPlacement(Catalog([*more, *BUILT_IN]), Options(WORKLOADS))


def _manifest(kind: str, placement: str, *own: Json) -> Json:
    spec: Json = {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    if own:
        required = {"nodeSelectorTerms": list(own)}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    annotations = {"kai.scheduler/topology": "site", "kai.scheduler/topology-required-placement": placement}
    return {
        "apiVersion": {"Job": "batch/v1"}.get(kind, "apps/v1"),
        "kind": kind,
        "metadata": {"name": "train", "annotations": annotations},
        "spec": {"template": {"spec": spec}},
    }


def _written(rule: TopologyPlacement, obj: Json, old: Json | None = None) -> Json:
    return patch.apply(obj, rule.mutate(request(obj, old=old), FACTS).operations)


@pytest.mark.parametrize("kind", ["Deployment", "Job"])
@pytest.mark.parametrize(
    "later",
    [
        pytest.param([], id="deleted"),
        pytest.param(["example.org/site", "example.org/building"], id="without-the-level"),
        pytest.param(["example.net/hall", "kubernetes.io/hostname"], id="another-key"),
    ],
)
def test_a_topology_that_changes_changes_no_workload(kind: str, later: list[str]) -> None:
    """A manifest with terms of its own is applied again after its topology has changed: nothing changes."""
    manifest = _manifest(kind, "hall=h1", _OWN)
    live = _written(_rule(_HALL), manifest)
    # Client-side apply puts the manifest's list of terms in the place of the live one.
    applied = deepcopy(live)
    applied["spec"]["template"]["spec"]["affinity"] = deepcopy(manifest["spec"]["template"]["spec"]["affinity"])

    assert _written(_rule(*later), applied, live) == live


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
@pytest.mark.parametrize("own", [pytest.param((), id="no-terms"), pytest.param((_OWN,), id="own-terms")])
@pytest.mark.parametrize("is_whole", [pytest.param(True, id="replaced"), pytest.param(False, id="edited")])
def test_a_rollback_brings_back_no_earlier_placement(kind: str, own: tuple[Json, ...], *, is_whole: bool) -> None:
    """Where a ControllerRevision brings back an earlier template, its Pods go where the annotations say today."""
    rule = _rule(_HALL)
    first = _written(rule, _manifest(kind, "hall=h1", *own))
    second = first
    for placement in ("hall=h2", "hall=h3"):
        manifest = _manifest(kind, placement, *own)
        edited = manifest if is_whole else deepcopy(second)
        edited["metadata"]["annotations"] |= manifest["metadata"]["annotations"]
        second = _written(rule, edited, second)

    rolled_back = {**deepcopy(second), "spec": deepcopy(first["spec"])}

    assert _written(rule, rolled_back, second) == second


def test_nothing_is_remembered_once_nothing_is_asked() -> None:
    """With the annotations the record goes, and what a user writes later is the user's."""
    rule = _rule(_HALL)
    manifest = _manifest("StatefulSet", "hall=h1")
    live = _written(rule, manifest)
    bare = deepcopy(live)
    for key in manifest["metadata"]["annotations"]:
        del bare["metadata"]["annotations"][key]

    assert _written(rule, bare, live) == {**manifest, "metadata": {"name": "train", "annotations": {}}}


def test_a_change_beside_a_topology_that_is_gone() -> None:
    """Where only the user's own terms change, what was written stays as long as nobody can say it anew."""
    live = _written(_rule(_HALL), _manifest("Deployment", "hall=h1"))
    edited = deepcopy(live)
    preferred = [{"weight": 1, "preference": _OWN}]
    edited["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][_PREFERRED] = preferred

    assert _written(_rule(), edited, live) == edited


@pytest.mark.parametrize("preferred", ["lowest", "zone"])
def test_a_default_refuses_nothing(preferred: str) -> None:
    """A workload that was there before the default was configured is updated as ever."""
    rule = TopologyPlacement(Catalog(BUILT_IN), Options(WORKLOADS, default=Default("kubernetes", preferred)))
    running = _manifest("Job", "hall=h1")
    del running["metadata"]["annotations"]
    running["spec"]["parallelism"] = 4
    labelled = {**running, "metadata": {**running["metadata"], "labels": {"a": "b"}}}

    assert (_written(rule, labelled, running), rule.validate(request(labelled, old=running), FACTS)) == (labelled, [])


def test_a_record_that_cannot_be_read_is_dropped() -> None:
    """It goes with the next update, whatever that is about, and a warning says so."""
    live = _manifest("Deployment", "hall=h1")
    live["metadata"]["annotations"]["cks-admission.dev/topology"] = "{"
    rule = _rule(_HALL)

    mutation = rule.mutate(request(live, old=live), FACTS)

    assert patch.apply(live, mutation.operations) == _manifest("Deployment", "hall=h1")
    assert mutation.warnings == (
        (
            "metadata.annotations[cks-admission.dev/topology] cannot be read and is dropped; "
            "node affinity that it noted stays"
        ),
    )
