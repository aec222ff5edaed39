"""Who keeps a gang together, and what is written for each way: gates, Pod affinity, Kubernetes' constraint, Kueue's."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import FACTS, TODAY, WORKLOADS, Json, merged, owner, pod, pod_spec, request, resource
from support.tables import rows

from policies.engine import patch
from policies.engine.facts import Facts, Node, StaticFacts
from policies.engine.match import LabelSelector, SelectorRequirement
from policies.topology.rule import TopologyPlacement
from policies.topology.template import Options, Permission, Way, read
from policies.topology.topology import BUILT_IN, Catalog
from policies.topology.way import FlavorsKey, Form, JobKey, Support, SupportKey, constraints, job_of, offer, scheduling
from policies.vocabulary import ACCELERATOR, CLIQUE

_TOPOLOGY, _GATE, _GANG = "kai.scheduler/topology", "cks-admission.dev/topology", "cks-admission.dev/gang"
_REQUIRED, _PREFERRED = f"{_TOPOLOGY}-required-placement", f"{_TOPOLOGY}-preferred-placement"
_RACK, _KUEUE = "node.coreweave.cloud/rack", "kueue.x-k8s.io/podset-required-topology"
_MARK = {"cks-admission.dev/placement-way": "affinity"}
_NODES = tuple(Node(f"n{number}", {_RACK: str(number)}) for number in range(2))
_GPU = {"nvidia.com/gpu": 8}
_QUEUED = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "team"}}}
_MUST = "requiredDuringSchedulingIgnoredDuringExecution"
_SHOULD = "preferredDuringSchedulingIgnoredDuringExecution"


def _rule(**options: Any) -> TopologyPlacement:
    return TopologyPlacement(Catalog(BUILT_IN), Options(WORKLOADS, **options))


_ON, _OFF, _ALONE = _rule(schedules=True), _rule(), _rule(clustered=False)


def _asked(required: str | None = None, preferred: str | None = None) -> dict[str, str]:
    levels = {_TOPOLOGY: "coreweave", _REQUIRED: required, _PREFERRED: preferred}
    return {key: level for key, level in levels.items() if level is not None}


def _job(annotations: dict[str, str] | None = None, **spec: Any) -> Json:
    indexed = {"parallelism": 8, "completions": 8, "completionMode": "Indexed"}
    own = _asked("rack") if annotations is None else annotations
    template = {"metadata": {}, "spec": pod_spec(_GPU)}
    return resource(
        "batch/v1", "Job", {"spec": {**indexed, "template": template, **spec}}, annotations=own, name="train"
    )


def _pod(annotations: dict[str, str], **fields: Any) -> Json:
    """A Pod of a Job."""
    return pod(_GPU, metadata={"annotations": annotations, **owner("Job")}, **fields)


def _facts(form: Form) -> Facts:
    facts = StaticFacts(TODAY, cluster_nodes=_NODES)
    return facts.entered(SupportKey(), Support(form, "" if form else "the gates are off"))


def _written(obj: Json, rule: TopologyPlacement = _OFF, facts: Facts = FACTS, old: Json | None = None) -> Json:
    changed = patch.apply(obj, rule.mutate(request(obj, old=old), facts).operations)
    assert rule.mutate(request(changed, old=old), facts).operations == ()
    return changed


def _told(obj: Json, rule: TopologyPlacement, facts: Facts = FACTS, old: Json | None = None) -> list[str]:
    return [each.warning for each in rule.validate(request(obj, old=old), facts)]


@pytest.mark.parametrize(
    ("ways", "clustered", "mark", "expected"),
    [
        pytest.param(("kueue", "workload", "gate", "affinity"), True, {}, "gate", id="usual"),
        pytest.param(("kueue", "workload", "gate", "affinity"), True, _MARK, "affinity", id="marked"),
        pytest.param(("kueue", "workload", "gate", "affinity"), False, {}, "affinity", id="no-placer"),
        pytest.param(("gate",), True, _MARK, "gate", id="the-mark-is-not-permitted"),
        pytest.param(("affinity",), True, {}, "affinity", id="affinity-alone"),
        pytest.param(("gate",), False, {}, "", id="no-placer-and-nothing-else"),
        pytest.param(("kueue",), True, {}, "", id="kueue-alone"),
    ],
)
def test_the_way_of_a_pod(ways: tuple[Way, ...], clustered: bool, mark: Json, expected: str) -> None:  # noqa: FBT001
    """The first way that is permitted and can keep the promise, for Pods as for what they are made from."""
    rule = _rule(placement=(Permission(ways=ways),), clustered=clustered)

    made = _written(_pod({**_asked("rack"), **mark}), rule)

    gates = [{"name": _GATE}] if expected == "gate" else None
    assert made["spec"].get("schedulingGates") == gates
    assert (_GANG in made["metadata"].get("labels", {})) is (expected == "affinity")
    [explained] = rule.explain(request(_job()), FACTS)
    assert explained.keeper.way == (expected if not mark else "gate")


def test_permission_by_topology_and_namespace() -> None:
    """The first entry that is for the topology and the Namespace counts."""
    of_team = LabelSelector((SelectorRequirement("team", "In", ("a",)),))
    rule = _rule(placement=(Permission(("aws*",), ways=("gate",)), Permission(namespaces=of_team, ways=("affinity",))))
    facts = [StaticFacts(TODAY, namespaces={"default": {"team": team}}) for team in "ab"]

    assert [rule.explain(request(_job()), each)[0].keeper.way for each in facts] == ["affinity", "gate"]


def test_pod_affinity_of_a_gang_to_itself() -> None:
    """Pods of one controller and placement are told from others by a label."""
    first, second, other, elsewhere = (
        _written(made, _ALONE)
        for made in (
            _pod(_asked("rack")),
            _pod(_asked("rack")),
            _pod(_asked("superpod")),
            merged(_pod(_asked("rack")), {"metadata": {"namespace": "elsewhere"}}),
        )
    )
    assert second == first
    assert len({made["metadata"]["labels"][_GANG] for made in (first, other, elsewhere)}) == 3


def test_an_nvl_domain_is_for_the_placer_alone() -> None:
    """No label names it, so that nobody else can be told of it, and the answer says so."""
    asked = {_TOPOLOGY: "nvlink", _REQUIRED: "nvl-domain"}

    assert _written(_pod(asked))["spec"]["schedulingGates"] == [{"name": _GATE}]
    assert _written(_pod(asked), _ALONE) == _pod(asked)
    assert _told(_written(_job(asked), _ALONE), _ALONE) == [
        'required "nvl-domain" has no effect (only gate may keep them)'
    ]


_BOTH = ("fabric", "superpod")
_OF_TWO = [{"backend.coreweave.cloud/fabric": fabric, "backend.coreweave.cloud/superpod": "1"} for fabric in _BOTH]


@pytest.mark.parametrize(
    ("nodes", "keys"),
    [
        ([], ["backend.coreweave.cloud/superpod"]),
        ([{f"ib.coreweave.cloud/{name}": "1" for name in _BOTH}], ["ib.coreweave.cloud/superpod"]),
        (_OF_TWO, ["backend.coreweave.cloud/superpod", "backend.coreweave.cloud/fabric"]),
    ],
    ids=["unknown", "older-names", "of-two-fabrics"],
)
def test_the_keys_of_pod_affinity(nodes: list[dict[str, str]], keys: list[str]) -> None:
    """The key that Nodes carry, or else the author's, and those of ancestors without which the level is not unique."""
    facts = StaticFacts(TODAY, cluster_nodes=tuple(Node(f"n{n}", labels) for n, labels in enumerate(nodes)))

    for asked, strength in ((_asked("superpod"), _MUST), (_asked(None, "superpod"), _SHOULD)):
        terms = _written(_pod(asked), _ALONE, facts)["spec"]["affinity"]["podAffinity"][strength]
        assert [term.get("podAffinityTerm", term)["topologyKey"] for term in terms] == keys
    [term] = _written(_pod(_asked("ib.coreweave.cloud/superpod")), _ALONE)["spec"]["affinity"]["podAffinity"][_MUST]
    assert term["topologyKey"] == "ib.coreweave.cloud/superpod"


def test_in_1_36_the_constraint_goes_into_the_pod_group() -> None:
    """The PodGroup that is made for a Job gets the constraint that the Job would get; one with its own keeps it."""
    stored = _written(_job(), _ON, _facts("PodGroup"))
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u1", "controller": True}
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "ownerReferences": [{"kind": "Workload", "name": "w"}, reference]},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 8}}},
    }
    own = merged(group, {"spec": {"schedulingConstraints": {"topology": []}}})
    key, facts = JobKey("default", "train", "u1"), _facts("PodGroup")

    assert "scheduling" not in stored["spec"]
    assert _written(group, _ON, facts.entered(key, stored)) == merged(
        group, {"spec": {"schedulingConstraints": constraints(_RACK)}}
    )
    for other in ({}, _job({}), _job(_asked(None, "rack"))):
        assert _written(group, _ON, facts.entered(key, other)) == group
    assert _written(own, _ON, facts) == own


def test_a_queued_job_gets_kueues_annotation() -> None:
    """What Kueue manages gets its annotation and no copies; it follows the placement, and goes with it."""
    facts = FACTS.entered(FlavorsKey(), frozenset({"coreweave"}))
    queued = merged(_job(suspend=True), _QUEUED)
    stored = _written(queued, facts=facts)
    other, bare = deepcopy(stored), deepcopy(stored)
    other["metadata"]["annotations"] = _asked(None, "superpod")
    bare["metadata"]["annotations"] = {}

    assert stored["spec"]["template"]["metadata"]["annotations"] == {_KUEUE: _RACK}
    assert _told(stored, _OFF, facts) == []
    assert _written(queued, facts=facts, old=stored) == stored
    assert _written(other, facts=facts, old=stored)["spec"]["template"]["metadata"]["annotations"] == {
        "kueue.x-k8s.io/podset-preferred-topology": "backend.coreweave.cloud/superpod"
    }
    assert _written(bare, facts=facts, old=stored)["spec"]["template"] == queued["spec"]["template"]


_NVLINK = {_TOPOLOGY: "topograph-nvlink"}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({**_NVLINK, _REQUIRED: "nvl-domain"}, ""),
        (
            {**_NVLINK, _REQUIRED: "nvlink"},
            f'Kueue does not know "nvlink": name one of its levels, {CLIQUE}, {ACCELERATOR}',
        ),
        (_asked("superpod", "rack"), 'Kueue takes one level: required "superpod" counts, preferred "rack" does not'),
        (_asked("rack=12"), 'Kueue takes levels only: "rack=12" becomes "rack"; choose the domain by a node selector'),
    ],
    ids=["label-that-is-not-there", "union", "both", "domain"],
)
def test_what_kueue_will_not_do(asked: dict[str, str], told: str) -> None:
    """It is said once; nobody keeps what Kueue cannot be told of, since its Pods get no gate."""
    facts = FACTS.entered(FlavorsKey(), frozenset({"coreweave", "topograph-nvlink"}))
    queued = merged(_job(asked), _QUEUED)

    [explained] = _OFF.explain(request(queued), facts)

    assert explained.keeper.way == ("" if "does not know" in told else "kueue")
    assert _told(_written(queued, facts=facts), _OFF, facts) == [line for line in (told,) if line]


@pytest.mark.parametrize(
    ("metadata", "gate", "is_kueues"),
    [
        ({"labels": {"kueue.x-k8s.io/podset": "main"}}, "", True),
        ({"annotations": {"kueue.x-k8s.io/workload": "job-train"}}, "", True),
        ({}, "kueue.x-k8s.io/topology", True),
        ({"labels": {"example.org/kueue": "x"}}, "example.org/gate", False),
    ],
)
def test_what_kueue_manages(metadata: Json, gate: str, is_kueues: bool) -> None:  # noqa: FBT001
    """A gate, label or annotation of Kueue's makes a Pod its own; a template that says its place is left alone."""
    gates = [{"name": gate}] if gate else []
    made = merged(_pod(_asked("rack"), schedulingGates=gates), {"metadata": metadata})
    own = {"kueue.x-k8s.io/podset-unconstrained-topology": "true"}
    queued = merged(_job(), _QUEUED, {"spec": {"template": {"metadata": {"annotations": own}}}})

    assert (_written(made) == made) is is_kueues
    assert _written(queued, facts=FACTS.entered(FlavorsKey(), None)) == queued


def test_without_a_flavor_the_author_is_told() -> None:
    """A topology that no ResourceFlavor names keeps Kueue from admitting the workload, and the answer says so."""
    facts = FACTS.entered(FlavorsKey(), frozenset({"dgx"}))

    assert _told(_written(merged(_job(), _QUEUED), facts=facts), _OFF, facts) == [
        'no ResourceFlavor of Kueue names topology "coreweave", so Kueue admits nothing that needs it'
    ]


_BACKEND, _IB = "backend.coreweave.cloud", "ib.coreweave.cloud"
_SUPERPOD = f"{_BACKEND}/superpod"


def _node(name: str, **values: str) -> Node:
    keys = {"rack": _RACK, "ib": f"{_IB}/superpod", "flavor": f"{_BACKEND}/flavor"}
    return Node(name, {keys.get(level, f"{_BACKEND}/{level}"): value for level, value in values.items()})


# Racks are numbered through, superpods anew in each fabric.
_PLACED_NODES = [
    _node("a", fabric="f1", superpod="1", rack="1"),
    _node("b", fabric="f1", superpod="1", rack="2"),
    _node("c", fabric="f2", superpod="1", rack="3"),
    Node("cpu", {"kubernetes.io/hostname": "cpu"}),
]


def _offer(obj: Json, nodes: Sequence[Node] = _PLACED_NODES, form: Form = "Job") -> tuple[str, str]:
    case = read(request(obj), Catalog(BUILT_IN), Options(WORKLOADS), FACTS)
    assert case is not None
    return offer(case.templates[0], (str(obj["apiVersion"]).rpartition("/")[0], obj["kind"]), obj, Support(form), nodes)


def test_a_level_with_one_key_and_unique_values_is_a_template() -> None:
    """A required rack, where racks are numbered through, becomes the constraint on the key of racks in both forms."""
    assert _offer(_job()) == _offer(_job(), form="PodGroup") == (_RACK, "")
    assert scheduling(_RACK) == {
        "schedulingPolicy": {"gang": {}},
        "schedulingConstraints": {"topology": [{"key": _RACK}]},
    }


def test_a_value_in_two_places_is_no_domain() -> None:
    """Superpod 1 of two fabrics would be one domain: no constraint, unless the placement or the template names one."""
    obstacle = ("", "superpod 1 is in several places; name the one around it")
    pinned = merged(
        _job(_asked("superpod")), {"spec": {"template": {"spec": {"nodeSelector": {f"{_BACKEND}/fabric": "f1"}}}}}
    )

    assert _offer(_job(_asked("superpod"))) == obstacle
    assert _offer(_job(_asked("fabric=f1,superpod"))) == _offer(pinned) == (_SUPERPOD, "")


def test_nodes_with_an_older_key_only_are_another_domain() -> None:
    """Kubernetes knows one key: where some Nodes have the older one alone, there is no constraint."""
    old = _node("d", fabric="f3", ib="9")
    one = [_node("e", superpod="1"), Node("f", {_SUPERPOD: "2", f"{_IB}/superpod": "2"})]

    obstacle = f"not all Nodes have the same label for superpod: {_SUPERPOD}, {_IB}/superpod"
    assert _offer(_job(_asked("superpod")), [_PLACED_NODES[0], old]) == ("", obstacle)
    assert _offer(_job(_asked("superpod")), [old]) == (f"{_IB}/superpod", "")
    assert _offer(_job(_asked("superpod")), one) == (_SUPERPOD, "")


def test_the_requirement_of_a_topology_counts() -> None:
    """Nodes that a topology rules out cannot make the values ambiguous."""
    nodes = [
        _node("a", fabric="f1", superpod="1", flavor="infiniband"),
        _node("b", fabric="f2", superpod="1", flavor="roce"),
    ]
    job = merged(_job(_asked("superpod")), {"metadata": {"annotations": {_TOPOLOGY: "coreweave-infiniband"}}})

    assert _offer(job, nodes) == (_SUPERPOD, "")


@rows(__file__, "obstacles")
def test_jobs_that_kubernetes_places_otherwise(change: Json, form: Form, obstacle: str) -> None:
    """A Job of which Kubernetes makes no gang, or not with this constraint, gets none, with the reason."""
    made = _offer(merged(_job(), change), form=form)

    assert made[1].startswith(obstacle)
    assert bool(made[0]) is not bool(obstacle)


def test_the_job_of_a_pod_group() -> None:
    """A PodGroup that a Job controls, and that has no constraint, is to get that of the Job."""
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    group: Json = {"metadata": {"ownerReferences": [reference]}, "spec": {}}

    assert job_of(group, "team") == JobKey("team", "train", "u")
    assert job_of(merged(group, {"spec": {"schedulingConstraints": constraints(_RACK)}}), "team") is None
    assert (
        job_of({"metadata": {"ownerReferences": [{**reference, "apiVersion": "batch.volcano.sh/v1"}]}}, "team") is None
    )
    assert job_of({"metadata": {}}, "team") is None


_PLACES = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("12"), st.sampled_from("xy")), min_size=1)


@given(_PLACES, st.sampled_from(["fabric", "superpod"]), st.randoms(use_true_random=False))
def test_a_constraint_means_the_domain_of_the_placement(places: Any, level: str, random: Any) -> None:
    """Where there is a key, Nodes share its value if and only if they share the domain; the order does not matter."""
    nodes = [
        _node(str(index), fabric=fabric, superpod=superpod, leafgroup=leaf)
        for index, (fabric, superpod, leaf) in enumerate(places)
    ]
    depth = 1 if level == "fabric" else 2
    domains, values = {place[:depth] for place in places}, {place[depth - 1] for place in places}
    made = _offer(_job(_asked(level)), nodes)
    random.shuffle(nodes)

    assert bool(made[0]) is (len(domains) == len(values))
    assert _offer(_job(_asked(level)), nodes)[0] == made[0]
    assert constraints(made[0]) == {"topology": [{"key": made[0]}]}
