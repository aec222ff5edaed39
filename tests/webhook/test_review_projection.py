"""How much of an object is decoded: what rules read and no more, and never so little that a decision changes."""

from typing import Any

import pytest
from builders import Json, owner
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from policies.engine import mutate, validate
from policies.facts import Node, StaticFacts, Taint
from policies.ruleset import RuleSet
from webhook.review import Decoder

from .reviews import TODAY, body
from .servers import default_rules


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


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param({"spec": None}, id="a-parent-that-is-null"),
        pytest.param({"spec": {"containers": None}}, id="a-list-that-is-null"),
        pytest.param({"spec": {"containers": {"a": "b"}}}, id="a-list-that-is-a-map"),
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


# Shipped kinds, a kind of the configuration, and one that no table knows.
_KINDS = [
    ("v1", "Pod"), ("v1", "Node"), ("v1", "PodTemplate"), ("apps/v1", "Deployment"), ("apps/v1", "DaemonSet"),
    ("apps/v1", "StatefulSet"), ("apps/v1", "ControllerRevision"), ("batch/v1", "CronJob"), ("ray.io/v1", "RayCluster"),
    ("kubeflow.org/v2beta1", "MPIJob"), ("jobset.x-k8s.io/v1alpha2", "JobSet"), ("example.org/v1", "Train"),
    ("compute.coreweave.com/v1", "NodePool"), ("resource.k8s.io/v1", "ResourceClaimTemplate"), ("x.org/v1", "Y"),
]  # fmt: skip
_WORKLOAD = {"group": "example.org", "kind": "Train", "templates": ["pods.*.template"], "nodeLabels": ["labels"]}
_RULES: RuleSet = default_rules(sunk={"daemonSets": "inject"}, workloads=[_WORKLOAD], organization={"id": "a1"})
_FACTS = StaticFacts(
    TODAY,
    cluster_nodes=(Node("n", {"pool": "a"}, (Taint("sunk.coreweave.com/lock", "NoExecute", "true"),)),),
    claims={("default", "gpu"): frozenset({"gpu.nvidia.com"})},
)

_KEYS = st.sampled_from(
    ["app", "foo.coreweave.cloud/bar", "qos.coreweave.cloud/interruptable", "ns.coreweave.cloud/org"]
)
_LABELS = st.dictionaries(_KEYS, st.sampled_from(["true", "a1", 1, None])) | st.sampled_from([None, ["x"], "x"])
_OWNED = st.sampled_from(
    [{}, owner(), {"annotations": {"kubernetes.io/config.mirror": "x"}}, {"deletionTimestamp": "x"}]
)
_METADATA = st.builds(lambda labels, rest: {**rest, "labels": labels}, _LABELS, _OWNED) | st.sampled_from(
    [None, {}, []]
)
_RESOURCES = st.sampled_from([{}, None, {"limits": {"nvidia.com/gpu": 1}}, {"requests": {"amd.com/gpu": "0"}}])
_CONTAINERS = st.lists(st.builds(lambda found: {"name": "a", "resources": found}, _RESOURCES) | st.none(), max_size=2)
_CLAIM = st.builds(lambda metadata: {"metadata": metadata, "spec": {}}, _METADATA)
_POD_SPEC = st.fixed_dictionaries(
    {},
    optional={
        "containers": _CONTAINERS | st.none(),
        "initContainers": _CONTAINERS,
        "tolerations": st.sampled_from(
            [None, [], "x", [{"operator": "Exists"}], [{"key": "is_gpu", "operator": "Exists"}]]
        ),
        "resourceClaims": st.sampled_from([None, [{"name": "g", "resourceClaimName": "gpu"}]]),
        "volumes": st.lists(st.builds(lambda claim: {"ephemeral": {"volumeClaimTemplate": claim}}, _CLAIM), max_size=1),
        "nodeName": st.just("n"),
        "nodeSelector": st.sampled_from([{"pool": "a"}, {"pool": "b"}, None]),
        "affinity": st.sampled_from([{}, None, "x"]),
    },
)
_TEMPLATE = (
    st.builds(lambda metadata, spec: {"metadata": metadata, "spec": spec, "x": 1}, _METADATA, _POD_SPEC) | st.none()
)
_JOB = st.builds(lambda metadata, pod: {"metadata": metadata, "spec": {"template": pod}}, _METADATA, _TEMPLATE)
_OBJECTS = st.fixed_dictionaries(
    {"metadata": _METADATA, "status": st.just({"x": 1})},
    optional={
        "spec": _POD_SPEC
        | st.fixed_dictionaries(
            {"metadata": _METADATA},
            optional={
                "template": _TEMPLATE,
                "jobTemplate": _JOB,
                "replicatedJobs": st.lists(st.builds(lambda job: {"name": "a", "template": job}, _JOB), max_size=2),
                "mpiReplicaSpecs": st.dictionaries(
                    st.just("Worker"), st.builds(lambda pod: {"template": pod}, _TEMPLATE)
                ),
                "headGroupSpec": st.builds(lambda pod: {"template": pod}, _TEMPLATE),
                "volumeClaimTemplates": st.lists(_CLAIM, max_size=2) | st.none(),
                "nodeLabels": _LABELS,
            },
        )
        | st.none(),
        "template": _TEMPLATE,
        "data": st.builds(lambda pod: {"spec": {"template": pod}}, _TEMPLATE),
        "pods": st.dictionaries(st.just("a"), st.builds(lambda pod: {"template": pod}, _TEMPLATE)),
        "labels": _LABELS,
    },
)


@settings(max_examples=400, deadline=None)
@given(
    kind=st.sampled_from(_KINDS),
    obj=_OBJECTS,
    old=_OBJECTS | st.none(),
    user=st.sampled_from(["alice", "system:node:n"]),
)
def test_what_is_left_out_changes_no_decision(kind: tuple[str, str], obj: Json, old: Json | None, user: str) -> None:
    """Every rule decides about the part that is decoded just as it decides about the whole object."""
    named = dict(zip(("apiVersion", "kind"), kind, strict=True))
    whole: Any = {**named, **obj}
    before: Any = None if old is None else {**named, **old}
    who = {"username": user, "groups": ["system:nodes"] if user != "alice" else []}

    part = Decoder(_RULES.reads).decode(body(whole, before, userInfo=who))
    full = replace(part, object=whole, old_object=before)

    assert asdict(mutate(part, _RULES, _FACTS)) == asdict(mutate(full, _RULES, _FACTS))
    assert asdict(validate(part, _RULES, _FACTS)) == asdict(validate(full, _RULES, _FACTS))
