"""How much of an object is decoded: what rules read and no more, and never so little that a decision changes."""

from typing import Any

import pytest
from msgspec.structs import asdict, replace
from support.builders import Json, at, daemon_set, owner, pod, resource
from support.service.reviews import RESERVED, TODAY, body
from support.service.servers import default_rules

from policies.engine.engine import mutate, validate
from policies.engine.facts import Node, StaticFacts
from policies.engine.request import MIRROR_ANNOTATION, AdmissionRequest
from policies.labels import places_of
from policies.objects.fieldpath import render
from policies.objects.workload import BUILT_IN, table, workload
from policies.podspec import READS as ACCELERATOR_READS
from webhook.http.review import Decoder

_OBJECT: Json = {
    "metadata": {"name": "trainer"},
    "data": {"a": "b"},
    "spec": {
        "x": 1,
        "tolerations": [{"key": "a"}],
        "containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}, {"name": "b"}],
        "roles": {"worker": {"template": {"spec": {}}, "replicas": 2}, "chief": {"replicas": 1}},
    },
}


@pytest.mark.parametrize(
    ("paths", "kept"),
    [
        (["data"], {"data": {"a": "b"}}),
        (["spec.tolerations"], {"spec": {"tolerations": [{"key": "a"}]}}),
        (["status.phase", "spec.y.z"], {"spec": {}}),
        (["spec.containers[*].resources"], {"spec": {"containers": [{"resources": {"limits": {"cpu": "1"}}}, {}]}}),
        (
            ["spec.roles.*.template", "spec.x"],
            {"spec": {"x": 1, "roles": {"worker": {"template": {"spec": {}}}, "chief": {}}}},
        ),
        (["spec.x", "spec"], {"spec": _OBJECT["spec"]}),
        (["spec.roles.*.replicas", "spec.roles.worker.template"], {"spec": {"roles": _OBJECT["spec"]["roles"]}}),
        (["spec.containers[*].name", "spec.containers.a"], {"spec": {"containers": _OBJECT["spec"]["containers"]}}),
        ([], {}),
    ],
)
def test_the_paths_that_are_decoded_are_those_that_were_asked_for(paths: list[str], kept: Json) -> None:
    """A decoder keeps what its paths name, whole where paths cross, and what is of use of metadata in any case."""
    skipped = {"managedFields": [{"manager": "kubectl"}], "resourceVersion": "7", "generation": 1}
    sent = {**_OBJECT, "metadata": {**skipped, **_OBJECT["metadata"]}}

    decoded = Decoder(paths).decode(body(sent, sent))

    assert decoded.object == decoded.old_object == {"metadata": {"name": "trainer"}, **kept}


@pytest.mark.parametrize(
    ("spec", "is_whole"),
    [
        # Where a path has a list, an expression may mean a map as well.
        pytest.param({"containers": None}, False, id="null-for-a-list"),
        pytest.param({"containers": {"a": "b", "c": {"resources": [1]}}}, False, id="a-map-for-a-list"),
        pytest.param(None, True, id="a-parent-that-is-null"),
        pytest.param({"containers": "x"}, True, id="a-list-that-is-a-text"),
        pytest.param({"containers": [{"resources": {}}, None, "x"]}, True, id="items-of-other-types"),
        pytest.param({"roles": []}, True, id="a-map-that-is-a-list"),
        pytest.param({"roles": {"a": None, "b": 1}}, True, id="values-of-other-types"),
    ],
)
def test_what_is_not_shaped_as_the_paths_say_is_handed_over(spec: Any, *, is_whole: bool) -> None:
    """Rules see all of what is odd, where nothing else would do in the whole object, the old one too."""
    decoder = Decoder(["spec.containers[*].resources", "spec.roles.*.template"])
    sent = {"metadata": {"name": "a", "managedFields": []}, "spec": spec, "status": 1}

    decoded = decoder.decode(body(sent, _OBJECT))

    assert decoded.object == (sent if is_whole else {"metadata": {"name": "a"}, "spec": spec})
    assert (decoded.old_object == _OBJECT) is is_whole


_TRAIN = {"group": "example.org", "kind": "Train", "templates": ["pods.*.template"], "nodeLabels": ["labels"]}
_RULES = default_rules(sunk={"daemonSets": "inject"}, workloads=[_TRAIN])
_TABLE = table((*BUILT_IN, workload("example.org", "Train", ["pods.*.template"], node_labels=["labels"])))
_FACTS = StaticFacts(
    TODAY,
    cluster_nodes=(Node("n", {"pool": "sunk", "sunk.coreweave.com/x": "y"}),),
    claims={("default", "gpu"): frozenset({"gpu.nvidia.com"})},
)


def _decoded(obj: Json, **fields: Any) -> tuple[AdmissionRequest, AdmissionRequest]:
    """The request as it is decoded for the rules, and the same one with the whole object."""
    whole = {**obj, "status": {"phase": "x"}}
    part = Decoder(_RULES.reads("validate", None)).decode(body(whole, **fields))
    assert part.object
    assert "status" not in part.object
    return part, replace(part, object=whole)


_PLACES = [
    pytest.param(row.group, row.kind, render(place.pattern), id=f"{row.kind}.{row.group}-{render(place.pattern)}")
    for row in _TABLE.values()
    for place in places_of((row.group, row.kind), row)
]


@pytest.mark.parametrize(("group", "kind", "path"), _PLACES)
def test_a_label_at_any_place_is_decoded(group: str, kind: str, path: str) -> None:
    """A reserved label is refused from what is decoded, at every place that a controller copies labels from."""
    place = path.replace("[*]", "[0]").replace(".*", ".any")
    part, whole = _decoded(resource(f"{group}/v1" if group else "v1", kind, at(place, RESERVED)))

    answer = validate(part, _RULES, _FACTS, "labels")

    assert [violation.path for decision in answer.decisions for violation in decision.violations] == [place]
    assert asdict(answer) == asdict(validate(whole, _RULES, _FACTS, "labels"))


_INIT = [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]
_CLAIM = [{"name": "a", "resourceClaimName": "gpu"}]
_EXISTS = [{"operator": "Exists"}]
_MIRROR = {"annotations": {MIRROR_ANNOTATION: "x"}}
_KUBELET = {"username": "system:node:n", "groups": ["system:nodes"]}
_OTHER = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["other"]}]}]}
_AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _OTHER}}
_LEFT, _PATCHED = {"tolerations": "admit"}, {"tolerations": "patch"}
_SUNK, _ELSEWHERE = {**_LEFT, "sunk": "patch"}, {**_PATCHED, "sunk": "admit"}


@pytest.mark.parametrize(
    ("obj", "verdicts"),
    [
        pytest.param(pod(), _PATCHED, id="cpu-pod"),
        pytest.param(pod({"nvidia.com/gpu": 1}), _LEFT, id="gpu-pod"),
        pytest.param(pod(initContainers=_INIT), _LEFT, id="gpu-init-container"),
        pytest.param(pod(resourceClaims=_CLAIM), _LEFT, id="gpu-claim"),
        pytest.param(pod(tolerations=_EXISTS), _LEFT, id="tolerating-pod"),
        pytest.param(pod(metadata=_MIRROR), _LEFT, id="mirror-pod"),
        pytest.param(pod(metadata={"deletionTimestamp": "2026-03-01T00:00:00Z"}), _LEFT, id="pod-being-deleted"),
        pytest.param(daemon_set(), {**_PATCHED, "sunk": "patch"}, id="cpu-daemonset"),
        pytest.param(daemon_set({"amd.com/gpu": "1"}), _SUNK, id="gpu-daemonset"),
        pytest.param(daemon_set(initContainers=_INIT), _SUNK, id="gpu-init-container-in-a-daemonset"),
        pytest.param(daemon_set(resourceClaims=_CLAIM), _SUNK, id="gpu-claim-in-a-daemonset"),
        pytest.param(daemon_set(tolerations=_EXISTS), {**_LEFT, "sunk": "admit"}, id="tolerating-daemonset"),
        pytest.param(daemon_set(nodeSelector={"pool": "other"}), _ELSEWHERE, id="daemonset-elsewhere"),
        pytest.param(daemon_set(affinity=_AFFINITY), _ELSEWHERE, id="daemonset-elsewhere-by-affinity"),
        pytest.param(daemon_set(metadata=owner()), {**_LEFT, "sunk": "admit"}, id="owned-daemonset"),
    ],
)
def test_what_a_mutation_depends_on_is_decoded(obj: Json, verdicts: dict[str, str]) -> None:
    """Every field that decides about tolerations is there, so that the patch is the one for the whole object."""
    part, whole = _decoded(obj)

    answer = mutate(part, _RULES, _FACTS)

    assert {decision.rule: decision.verdict for decision in answer.decisions} == {"topology": "admit", **verdicts}
    assert asdict(answer) == asdict(mutate(whole, _RULES, _FACTS))
    assert asdict(validate(part, _RULES, _FACTS)) == asdict(validate(whole, _RULES, _FACTS))


_TAINTED = {"spec": {"taints": [{"key": "is_gpu", "effect": "PreferNoSchedule"}]}}
_FINALIZED = {"spec": {"finalizers": ["kubernetes"]}}
_THEIRS = {"ns.coreweave.cloud/org": "control-plane"}
_TWICE = {"spec": {"levels": [{"nodeLabel": "example.org/rack"}, {"nodeLabel": "example.org/rack"}]}}
_TOPOLOGIES = {"group": "kai.scheduler", "version": "v1alpha1", "resource": "topologies"}


@pytest.mark.parametrize(
    ("obj", "fields", "group", "verdict"),
    [
        pytest.param(
            pod(labels=RESERVED, metadata=_MIRROR, nodeName="n"), {"userInfo": _KUBELET}, "labels", "admit", id="mirror"
        ),
        pytest.param(
            pod(labels=RESERVED, metadata=_MIRROR, nodeName="other"),
            {"userInfo": _KUBELET},
            "labels",
            "deny",
            id="others-mirror",
        ),
        pytest.param(resource("v1", "Node"), {"old": resource("v1", "Node", _TAINTED)}, "guard", "warn", id="taint"),
        pytest.param(
            resource("v1", "Namespace", labels=_THEIRS),
            {"old": resource("v1", "Namespace", _FINALIZED, labels=_THEIRS)},
            "guard",
            "warn",
            id="finalizer",
        ),
        pytest.param(
            resource("kai.scheduler/v1alpha1", "Topology", _TWICE),
            {"resource": _TOPOLOGIES, "namespace": ""},
            "topologies",
            "deny",
            id="level",
        ),
    ],
)
def test_what_a_verdict_depends_on_is_decoded(obj: Json, fields: Json, group: str, verdict: str) -> None:
    """What the rules for labels, taints, finalizers and levels go by is there."""
    part, whole = _decoded(obj, **fields)

    answer = validate(part, _RULES, _FACTS, group)

    assert [decision.verdict for decision in answer.decisions] == [verdict]
    assert asdict(answer) == asdict(validate(whole, _RULES, _FACTS, group))


def test_every_path_that_rules_read_is_tried() -> None:
    """The tables above leave out no path that a rule says it reads, but for those which have tables of their own."""
    tried = {str(param.values[2]) for param in _PLACES}
    pods = {f"{pod_}spec.{path}" for pod_ in ("", "spec.template.") for path in ("tolerations", *ACCELERATOR_READS)}
    daemon_sets = {"spec.template.spec.affinity", "spec.template.spec.nodeSelector"}

    others = {"spec.nodeName", "spec.finalizers", "spec.taints", "spec.levels", "spec.topologyName"}

    reads = frozenset().union(*(rule.reads for rule in _RULES.rules if rule.name not in ("topology", "selectors")))
    assert reads <= tried | pods | daemon_sets | others
