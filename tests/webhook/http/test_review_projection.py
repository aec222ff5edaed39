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


def test_only_what_rules_read_is_decoded() -> None:
    """Fields that no rule reads are left out, managedFields first of all: they are half of a real review."""
    metadata = {
        "name": "trainer",
        "generateName": "t-",
        "namespace": "default",
        "uid": "1",
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "ownerReferences": [{"kind": "ReplicaSet", "controller": True}],
        "deletionTimestamp": "2026-03-01T00:00:00Z",
        "finalizers": ["x"],
    }
    skipped = {
        "managedFields": [{"manager": "kubectl"}],
        "resourceVersion": "7",
        "creationTimestamp": None,
        "generation": 1,
    }
    obj = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": []}}
    sent = body(
        {**obj, "status": {"phase": "Pending"}, "metadata": {**skipped, **metadata}}, {**obj, "metadata": skipped}
    )

    decoded = asdict(Decoder({"metadata", "spec"}).decode(sent))

    assert decoded["object"] == {**obj, "metadata": metadata}
    assert decoded["old_object"] == {**obj, "metadata": {}}


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
        pytest.param(["data"], {"data": {"a": "b"}}, id="a-field"),
        pytest.param(["spec.tolerations"], {"spec": {"tolerations": [{"key": "a"}]}}, id="a-path"),
        pytest.param(["status.phase", "spec.y.z"], {"spec": {}}, id="what-is-not-there"),
        pytest.param(
            ["spec.containers[*].resources"],
            {"spec": {"containers": [{"resources": {"limits": {"cpu": "1"}}}, {}]}},
            id="in-every-item",
        ),
        pytest.param(
            ["spec.roles.*.template", "spec.x"],
            {"spec": {"x": 1, "roles": {"worker": {"template": {"spec": {}}}, "chief": {}}}},
            id="in-every-value",
        ),
        pytest.param(["spec.x", "spec"], {"spec": _OBJECT["spec"]}, id="a-path-and-its-parent"),
        pytest.param(
            ["spec.roles.*.replicas", "spec.roles.worker.template"],
            {"spec": {"roles": _OBJECT["spec"]["roles"]}},
            id="every-value-and-one-by-name",
        ),
        pytest.param(
            ["spec.containers[*].name", "spec.containers.a"],
            {"spec": {"containers": _OBJECT["spec"]["containers"]}},
            id="a-list-and-a-map",
        ),
        pytest.param([], {}, id="nothing"),
    ],
)
def test_the_paths_that_are_decoded_are_those_that_were_asked_for(paths: list[str], kept: Json) -> None:
    """A decoder keeps what its paths name, whole where paths cross, and metadata in any case."""
    decoded = Decoder(paths).decode(body(_OBJECT, _OBJECT))

    assert decoded.object == decoded.old_object == {"metadata": {"name": "trainer"}, **kept}


@pytest.mark.parametrize("value", [None, {}, {"a": "b", "c": {"resources": [1]}}])
def test_what_stands_for_a_list_is_kept(value: Any) -> None:
    """Null or a map where a path has a list is decoded whole: an expression may mean either."""
    decoder = Decoder(["spec.containers[*].resources"])
    sent = {"metadata": {"name": "a", "managedFields": []}, "spec": {"containers": value, "volumes": []}, "status": 1}

    assert decoder.decode(body(sent)).object == {"metadata": {"name": "a"}, "spec": {"containers": value}}


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param({"spec": None}, id="a-parent-that-is-null"),
        pytest.param({"spec": {"containers": "x"}}, id="a-list-that-is-a-text"),
        pytest.param({"spec": {"containers": [{"resources": {}}, None, "x"]}}, id="items-of-other-types"),
        pytest.param({"spec": {"roles": []}}, id="a-map-that-is-a-list"),
        pytest.param({"spec": {"roles": {"a": None, "b": 1}}}, id="values-of-other-types"),
    ],
)
def test_a_path_through_something_else_hands_over_all_of_it(odd: Json) -> None:
    """An object that is not shaped as the paths say is decoded whole, the old one too: rules see what is odd."""
    decoder = Decoder(["spec.containers[*].resources", "spec.roles.*.template"])
    whole = {"metadata": {"managedFields": []}, **odd, "status": 1}

    decoded = decoder.decode(body(whole, _OBJECT))

    assert (decoded.object, decoded.old_object) == (whole, _OBJECT)


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


_GPU = {"limits": {"nvidia.com/gpu": 1}}
_EXISTS = [{"operator": "Exists"}]
_ELSEWHERE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["other"]}]}]}
_AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _ELSEWHERE}}
_LEFT, _PATCHED = {"tolerations": "admit"}, {"tolerations": "patch"}


@pytest.mark.parametrize(
    ("obj", "verdicts"),
    [
        pytest.param(pod(), _PATCHED, id="cpu-pod"),
        pytest.param(pod({"nvidia.com/gpu": 1}), _LEFT, id="gpu-pod"),
        pytest.param(pod(initContainers=[{"name": "a", "resources": _GPU}]), _LEFT, id="gpu-init-container"),
        pytest.param(pod(resourceClaims=[{"name": "a", "resourceClaimName": "gpu"}]), _LEFT, id="gpu-claim"),
        pytest.param(pod(tolerations=_EXISTS), _LEFT, id="tolerating-pod"),
        pytest.param(pod(metadata={"annotations": {MIRROR_ANNOTATION: "x"}}), _LEFT, id="mirror-pod"),
        pytest.param(pod(metadata={"deletionTimestamp": "2026-03-01T00:00:00Z"}), _LEFT, id="pod-being-deleted"),
        pytest.param(daemon_set(), {"tolerations": "patch", "sunk": "patch"}, id="cpu-daemonset"),
        pytest.param(daemon_set({"amd.com/gpu": "1"}), {"tolerations": "admit", "sunk": "patch"}, id="gpu-daemonset"),
        pytest.param(
            daemon_set(initContainers=[{"name": "a", "resources": _GPU}]),
            {"tolerations": "admit", "sunk": "patch"},
            id="gpu-init-container-in-a-daemonset",
        ),
        pytest.param(
            daemon_set(resourceClaims=[{"name": "a", "resourceClaimName": "gpu"}]),
            {"tolerations": "admit", "sunk": "patch"},
            id="gpu-claim-in-a-daemonset",
        ),
        pytest.param(
            daemon_set(tolerations=_EXISTS), {"tolerations": "admit", "sunk": "admit"}, id="tolerating-daemonset"
        ),
        pytest.param(
            daemon_set(nodeSelector={"pool": "other"}),
            {"tolerations": "patch", "sunk": "admit"},
            id="daemonset-elsewhere",
        ),
        pytest.param(
            daemon_set(affinity=_AFFINITY),
            {"tolerations": "patch", "sunk": "admit"},
            id="daemonset-elsewhere-by-affinity",
        ),
        pytest.param(daemon_set(metadata=owner()), {"tolerations": "admit", "sunk": "admit"}, id="owned-daemonset"),
    ],
)
def test_what_a_mutation_depends_on_is_decoded(obj: Json, verdicts: dict[str, str]) -> None:
    """Every field that decides about tolerations is there, so that the patch is the one for the whole object."""
    part, whole = _decoded(obj)

    answer = mutate(part, _RULES, _FACTS)

    assert {decision.rule: decision.verdict for decision in answer.decisions} == {"topology": "admit", **verdicts}
    assert asdict(answer) == asdict(mutate(whole, _RULES, _FACTS))
    assert asdict(validate(part, _RULES, _FACTS)) == asdict(validate(whole, _RULES, _FACTS))


@pytest.mark.parametrize(("node", "allowed"), [("n", True), ("other", False)])
def test_what_tells_a_kubelets_own_pod_is_decoded(node: str, *, allowed: bool) -> None:
    """A kubelet may mirror a static Pod that runs on its own Node, which the Pod's nodeName says."""
    mirror = pod(labels=RESERVED, metadata={"annotations": {MIRROR_ANNOTATION: "x"}}, nodeName=node)
    part, _ = _decoded(mirror, userInfo={"username": "system:node:n", "groups": ["system:nodes"]})

    assert validate(part, _RULES, _FACTS, "labels").allowed is allowed


@pytest.mark.parametrize(
    ("kind", "fields", "labels"),
    [
        ("Node", {"taints": [{"key": "is_gpu", "effect": "PreferNoSchedule"}]}, {}),
        ("Namespace", {"finalizers": ["kubernetes"]}, {"ns.coreweave.cloud/org": "control-plane"}),
    ],
)
def test_what_the_guard_depends_on_is_decoded(kind: str, fields: Json, labels: dict[str, str]) -> None:
    """Taints and finalizers are there, so that one that is taken away is seen."""
    old = resource("v1", kind, {"spec": fields}, labels=labels)
    part, whole = _decoded(resource("v1", kind, labels=labels), old=old)

    answer = validate(part, _RULES, _FACTS, "guard")

    assert [decision.verdict for decision in answer.decisions] == ["warn"]
    assert asdict(answer) == asdict(validate(whole, _RULES, _FACTS, "guard"))


def test_what_judges_topologies_is_decoded() -> None:
    """The levels of a Topology object are there, so that one that stands twice is seen."""
    levels = [{"nodeLabel": "example.org/rack"}, {"nodeLabel": "example.org/rack"}]
    topology = resource("kai.scheduler/v1alpha1", "Topology", {"spec": {"levels": levels}})
    served = {"group": "kai.scheduler", "version": "v1alpha1", "resource": "topologies"}
    part, whole = _decoded(topology, resource=served, namespace="")

    answer = validate(part, _RULES, _FACTS, "topologies")

    assert [decision.verdict for decision in answer.decisions] == ["deny"]
    assert asdict(answer) == asdict(validate(whole, _RULES, _FACTS, "topologies"))


def test_every_path_that_rules_read_is_tried() -> None:
    """The tables above leave out no path that a rule says it reads, but for those which have tables of their own."""
    tried = {str(param.values[2]) for param in _PLACES}
    pods = {f"{pod_}spec.{path}" for pod_ in ("", "spec.template.") for path in ("tolerations", *ACCELERATOR_READS)}
    daemon_sets = {"spec.template.spec.affinity", "spec.template.spec.nodeSelector"}

    others = {"spec.nodeName", "spec.finalizers", "spec.taints", "spec.levels", "spec.topologyName"}

    reads = frozenset().union(*(rule.reads for rule in _RULES.rules if rule.name not in ("topology", "selectors")))
    assert reads <= tried | pods | daemon_sets | others
