"""Topologies: the built-in ones, what is merged and what clashes, and objects: how they are read and who names one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.builders import FACTS, TODAY, request, resource
from support.tables import rows

from policies.engine.facts import Node, References, StaticFacts
from policies.engine.match import EVERYTHING, LabelSelector, SelectorRequirement
from policies.engine.violation import Violation, describe
from policies.topology.objects import TopologyError, TopologyObjects, make, read, source_of
from policies.topology.topology import (
    BUILT_IN,
    NVL_DOMAIN,
    NVLINK,
    Catalog,
    Clash,
    Level,
    Topology,
    cliques_of,
    in_cliques,
    label_value,
    level,
    no_level,
    shortened,
    with_nvl_domain,
)
from policies.vocabulary import CLIQUE, HOSTNAME

_ROOM, _ROW = level("example.org/hall", "room"), level("example.org/row")
_NORTH, _SOUTH = level("north.example.org/rack"), level("south.example.org/rack")
_HALLS = Topology("halls", (_ROOM, _ROW, _NORTH, _SOUTH))


def test_a_level_by_each_of_its_names() -> None:
    """Key, short name and alias name a level, unless several share a short name."""
    named = {name: _HALLS.find(name) for name in ("example.org/hall", "hall", "room", "row", "rack", "x")}

    assert list(named.values()) == [_ROOM, _ROOM, _ROOM, _ROW, None, None]
    assert _HALLS.in_order == (
        'Levels of topology "halls", farthest first: room, row, north.example.org/rack, south.example.org/rack.'
    )
    assert _HALLS.names == (
        *("room", "row", "north.example.org/rack", "south.example.org/rack"),
        *("hall", "example.org/hall", "example.org/row"),
    )


def test_an_alias_comes_before_the_short_name_of_another_level() -> None:
    """What a topology says itself counts; the other level is called by its key."""
    far, near = level("example.org/hall", "row"), level("example.org/row")
    topology = Topology("rows", (far, near))

    assert (topology.find("row"), topology.called(near)) == (far, "example.org/row")


def test_the_place_of_the_nvlink_domain() -> None:
    """It stands where the clique does, and takes no name from the levels that it is made of."""
    (topology,) = (each for each in BUILT_IN if each.name == "topograph-nvlink")
    accelerator, domain, clique, hostname = topology.levels[-4:]

    assert topology.find("nvlink") is NVLINK
    assert (topology.find("gpu.clique"), topology.find("nvidia.com/gpu.clique")) == (clique, clique)
    assert (topology.find("accelerator"), topology.find("nvl-domain")) == (accelerator, domain)
    assert (topology.position(NVLINK), topology.below(NVLINK)) == (topology.position(clique), (hostname,))


_BACKEND, _NVIDIA = "backend.coreweave.cloud", "network.topology.nvidia.com"


def _flavor(name: str) -> LabelSelector:
    return LabelSelector((SelectorRequirement("backend.coreweave.cloud/flavor", "In", (name,)),))


def test_what_topologies_require_of_nodes() -> None:
    """InfiniBand and RoCE ask for a flavor, the others for nothing; none of them is for a pool or in the cluster."""
    required = {"coreweave-infiniband": _flavor("infiniband"), "coreweave-roce": _flavor("roce")}
    assert {each.name: each.requirement for each in BUILT_IN if each.requirement != EVERYTHING} == required
    assert {(each.pool, each.in_cluster, each.source) for each in BUILT_IN} == {(None, False, "built in")}


def test_the_nvlink_domain() -> None:
    """Only topograph-nvlink has one: the clique, else the accelerator. CoreWeave's leafgroups have names beside."""
    nvlink = Level("nvlink", ("nvidia.com/gpu.clique", f"{_NVIDIA}/accelerator"), distinct=True, independent=True)

    keys = tuple(f"{prefix}.coreweave.cloud/leafgroup-name" for prefix in ("backend", "ib"))
    named = Level(keys[0], keys, beside=f"{_BACKEND}/leafgroup")
    coreweave = {each.name: (named,) for each in BUILT_IN if each.name.startswith("coreweave")}

    assert {each.name: each.unions for each in BUILT_IN if each.unions} == {"topograph-nvlink": (nvlink,), **coreweave}
    assert {each.position(named) for each in BUILT_IN if each.name in coreweave} == {4}


def test_the_nvl_domain_of_aws() -> None:
    """SageMaker HyperPod names it by a label of AWS; another Node's is that of its clique."""
    (aws,) = (each for each in BUILT_IN if each.name == "aws-nvlink")
    domain = aws.find("nvl-domain")

    assert domain is not None
    assert domain.keys == ("topology.k8s.aws/ultraserver-id", "nvidia.com/nvl-domain")
    assert [aws.find(name) for name in ("ultraserver-id", *domain.keys)] == [domain] * 3


def test_every_short_name_is_unique() -> None:
    """Each level can be called by its short name, and by its whole key, and is then the same one."""
    for topology in BUILT_IN:
        for one in topology.levels:
            assert [topology.find(name) for name in (one.short, *one.keys)] == [one] * (1 + len(one.keys))
            assert topology.called(one) == (one.alias or one.short)


_HALL, _RACK = level("example.org/hall"), level("example.org/rack")
_FILE = Topology("halls", (_HALL, _RACK), source="halls.yaml")
_OBJECT = Topology("halls", (level("example.org/hall", "room"), _RACK), source="KAI Topology halls", in_cluster=True)
_ONE, _TWO = (LabelSelector((SelectorRequirement("pool", "In", (name,)),)) for name in ("a", "b"))


def test_topologies_with_the_same_levels_are_one() -> None:
    """They are merged, in whichever order; the cluster's object gives the aliases, which its schedulers know."""
    merged = replace(_OBJECT, source="halls.yaml; KAI Topology halls")

    assert Catalog([_FILE, _OBJECT]).by_name == {"halls": merged}
    assert Catalog([_OBJECT, _FILE]).by_name == {"halls": replace(merged, source="KAI Topology halls; halls.yaml")}


def test_levels_that_differ_clash() -> None:
    """The first one counts, and the error names both with their levels."""
    other = Topology("halls", (_RACK, _HALL), source="the configuration")
    catalog = Catalog([_FILE, other])

    assert (catalog.by_name, catalog.clashes) == ({"halls": _FILE}, (Clash(_FILE, other),))
    assert str(catalog.clashes[0]) == (
        'topology "halls" is defined twice, with different levels: halls.yaml (example.org/hall, example.org/rack); '
        "and the configuration (example.org/rack, example.org/hall). Keep one."
    )


@pytest.mark.parametrize("field", ["requirement", "pool"])
def test_requirements_and_pools_that_differ_clash(field: str) -> None:
    """Where the levels are the same the error says what is not."""
    first, second = (replace(_FILE, **{field: selector}) for selector in (_ONE, _TWO))  # type: ignore[arg-type] # one of two
    catalog = Catalog([first, replace(second, source="the configuration")])

    (clash,) = catalog.clashes
    assert str(clash) == (
        'topology "halls" is defined twice, with different node requirements or pools: halls.yaml, '
        "and the configuration. Keep one of them."
    )


def test_joining() -> None:
    """The cluster's topologies come after the others; without any, the catalog is the same one."""
    catalog = Catalog([_FILE])
    more = Topology("rows", (_RACK,))

    assert catalog.joined(()) is catalog
    assert list(catalog.joined((more, _OBJECT)).by_name) == ["halls", "rows"]
    assert (catalog.find("rows"), catalog.joined((more,)).find("rows")) == (None, more)
    assert Topology("halls", (_HALL,)).requirement == EVERYTHING


def test_aliases_of_all_definitions_hold() -> None:
    """A level may be called by any alias that a definition gives it; where two differ the cluster's counts."""
    configured = Topology("halls", (level("example.org/hall", "salon"), level("example.org/rack", "rk")))

    merged = Catalog([configured, _OBJECT]).by_name["halls"]

    assert [each.alias for each in merged.levels] == ["room", "rk"]


_LEAF = "network.topology.nvidia.com/leaf"


def test_values_as_nodes_carry_them() -> None:
    """A value too long is x and its hash without leading zeros, under the keys that Topograph writes alone."""
    leaf = {
        "a" * 63: "a" * 63,
        "a" * 64: "xdb007849f35ebbe5",
        "a" * 69: "x65863cd5b882ce8",
        "d" * 73: "x2659ad613b6b33",
    }
    keys = ("fabric.topograph.run/tier-1", "accelerator.topograph.run/domain", "node.coreweave.cloud/rack")
    written, other = level("example.org/switch-0"), level("example.org/row")
    topology = Topology("own", (other, written))
    levels = [*map(level, keys), *shortened(topology, ("example.org/switch-",)).levels]

    assert {value: label_value(level(_LEAF), _LEAF, value) for value in leaf} == leaf
    assert [label_value(one, one.name, "a" * 69)[:3] for one in levels] == ["x65", "x65", "aaa", "aaa", "x65"]
    assert shortened(topology, ()) is topology


def test_a_level_of_an_older_key() -> None:
    """A level goes by the key that it was made of, and counts under both."""
    keys = ("backend.coreweave.cloud/fabric", "ib.coreweave.cloud/fabric")
    made = level("ib.coreweave.cloud/fabric", "net")

    assert made == Level("ib.coreweave.cloud/fabric", keys, "net")
    assert (made.short, level("rack").short) == ("fabric", "rack")


@rows(__file__, "no_levels")
def test_labels_that_are_no_level(key: str, told: str) -> None:
    """Known labels that somebody may take for a level are told by what they say instead."""
    assert no_level(key) == told


_A, _B = "8d4a0d2f-1c70-4a93-9f0f-0c4e7cf0a1b2", "1f0c2a44-90ab-4e0e-8a51-6b1d2c3e4f50"
_NODES = [with_nvl_domain({CLIQUE: f"{_A}.{number}"}) for number in (2, 1, 1)] + [
    with_nvl_domain({CLIQUE: f"{_B}.1"}),
    {},
]
_KNOWN = {_A: [f"{_A}.1", f"{_A}.2"], _B: [f"{_B}.1"]}


def test_domains_and_cliques_of_nodes() -> None:
    """A domain is what stands before the dot, a clique of another form has none; each has its cliques in order."""
    assert with_nvl_domain({CLIQUE: f"{_A}.1", "a": "b"}) == {CLIQUE: f"{_A}.1", "a": "b", NVL_DOMAIN: _A}
    assert [with_nvl_domain(labels) for labels in ({}, {CLIQUE: "1"})] == [{}, {CLIQUE: "1"}]
    assert cliques_of(_NODES) == _KNOWN


def test_what_is_written() -> None:
    """A domain becomes its cliques, that there is one becomes that there is a clique, and the rest stays as it is."""
    other = SelectorRequirement("a", "In", ("b",))
    inside, there = SelectorRequirement(NVL_DOMAIN, "In", (_A, "gone")), SelectorRequirement(NVL_DOMAIN, "Exists")

    assert [in_cliques(requirement, _KNOWN) for requirement in (other, inside, there)] == [
        other,
        SelectorRequirement(CLIQUE, "In", (f"{_A}.1", f"{_A}.2", "gone")),
        SelectorRequirement(CLIQUE, "Exists"),
    ]


_BLOCK, _LOWER = "cloud.example.org/block", "cloud.example.org/rack"


def _kai(*levels: Any, name: Any = "halls") -> Any:
    spec = {"levels": list(levels)}
    return {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(
            _kai({"nodeLabel": _BLOCK, "alias": "block-1"}, {"nodeLabel": _LOWER}),
            Topology("halls", (level(_BLOCK, "block-1"), level(_LOWER)), source="a file", objects=("KAI",)),
            id="kai",
        ),
        pytest.param(
            {**_kai({"nodeLabel": _BLOCK}), "apiVersion": "kueue.x-k8s.io/v1beta1"},
            Topology("halls", (level(_BLOCK),), source="a file", objects=("Kueue",)),
            id="kueue",
        ),
        pytest.param(
            {"name": "halls", "clusterId": "71f69d83", "levels": [_BLOCK, "ib.coreweave.cloud/fabric"]},
            Topology("halls", (level(_BLOCK), level("ib.coreweave.cloud/fabric")), source="a file"),
            id="runai",
        ),
        pytest.param(
            _kai({"nodeLabel": _BLOCK, "alias": None}, {"nodeLabel": "kubernetes.io/hostname", "alias": ""}),
            Topology("halls", (level(_BLOCK), level("kubernetes.io/hostname")), source="a file", objects=("KAI",)),
            id="no-aliases",
        ),
    ],
)
def test_forms(document: Any, expected: Topology) -> None:
    """Each form comes to the same value, with its levels in their order."""
    assert read(document, "a file") == expected


def test_an_object_of_the_cluster() -> None:
    """Where it comes from is kept, since schedulers know the cluster's topologies only."""
    assert read(_kai(_level := {"nodeLabel": _BLOCK}), "KAI", in_cluster=True) == Topology(
        "halls", (level(_BLOCK),), source="KAI", in_cluster=True, objects=("KAI",)
    )
    assert source_of(_kai(_level)) == "KAI Topology halls"
    assert source_of({**_kai(_level), "apiVersion": "kueue.x-k8s.io/v1beta1"}) == "Kueue Topology halls"


def test_an_entry_of_the_configuration() -> None:
    """It may also say what Nodes must have, and for which pool it is."""
    requirement = LabelSelector((SelectorRequirement("a", "Exists"),))
    pool = LabelSelector((SelectorRequirement("b", "In", ("c",)),))

    made = make("halls", (_BLOCK,), "the configuration", requirement=requirement, pool=pool)

    assert made == Topology("halls", (level(_BLOCK),), (), requirement, pool, "the configuration")


_A_LEVEL = "a level is the key of a node label, such as example.org/rack; found"


@rows(__file__, "wrong")
def test_what_is_wrong(document: Any, message: str) -> None:
    """Every mistake is told with its place and what was found. A list stands for the levels of an entry."""
    with pytest.raises(TopologyError) as raised:
        read({"name": "halls", "levels": document} if isinstance(document, list) and document else document, "a file")

    assert str(raised.value) == message


def test_problems_have_their_places() -> None:
    """Whoever reads a file can find the line of each mistake."""
    with pytest.raises(TopologyError) as raised:
        make("halls", [1], "the configuration", at=("topology", "topologies", 2))

    assert raised.value.problems == ((("topology", "topologies", 2, "levels", 0), f"{_A_LEVEL} the number 1"),)


_TOPOLOGY_RULE = TopologyObjects(Catalog(BUILT_IN), "deny")


def _topology(api_version: str = "kai.scheduler/v1alpha1", kind: str = "Topology") -> Any:
    return resource(api_version, kind, name="halls")


_MADE = {"metadata": {"name": "halls", "ownerReferences": [{"kind": "ClusterTopologyBinding", "controller": True}]}}


def _levels(*keys: str) -> Any:
    return {**_topology(), "spec": {"levels": [{"nodeLabel": key} for key in keys]}}


def _resource_flavor(topology: str) -> Any:
    flavor = resource("kueue.x-k8s.io/v1beta2", "ResourceFlavor", name="gpus")
    return {**flavor, "spec": {"topologyName": topology} if topology else {}}


def _facts(*workloads: str, incomplete: str = "") -> StaticFacts:
    return StaticFacts(TODAY, naming={"halls": References(workloads, incomplete)})


def _violation(problem: str) -> Violation:
    return Violation(
        "topology-objects",
        "",
        'topology "halls"',
        problem,
        "Workloads still name this topology.",
        "Change or delete them first: Pods that wait would never be scheduled. Running ones go on.",
    )


@pytest.mark.parametrize("api_version", ["kai.scheduler/v1alpha1", "kueue.x-k8s.io/v1beta1"])
def test_workloads_that_name_it(api_version: str) -> None:
    """The first five are listed, and it is said if there may be more."""
    asked, doubt = request(None, old=_topology(api_version)), "not all could be looked at: no time left"
    found = {
        "is named by Job a/train": _facts("Job a/train"),
        "is named by Job a/1, Job a/2, Job a/3, Job a/4, Job a/5 and 2 more": _facts(
            *(f"Job a/{n}" for n in range(1, 8))
        ),
        f"is named by Job a/train; {doubt}": _facts("Job a/train", incomplete="no time left"),
        doubt: _facts(incomplete="no time left"),
    }

    for problem, facts in found.items():
        assert _TOPOLOGY_RULE.validate(asked, facts) == (_violation(problem),)
    assert list(_TOPOLOGY_RULE.validate(asked, FACTS)) == []
    assert describe([_violation("is named by Job a/train")]) == (
        "Workloads still name this topology.\n"
        '  topology "halls" is named by Job a/train\n'
        "Change or delete them first: Pods that wait would never be scheduled. Running ones go on."
    )


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(request(None, old=_topology("example.org/v1")), id="another-group"),
        pytest.param(request(None, old=_topology(kind="Queue")), id="another-kind"),
        pytest.param(request(_levels("a.example/x"), old=_levels("a.example/x")), id="the-same-levels"),
        pytest.param(request(_resource_flavor("halls"), old=_resource_flavor("halls")), id="a-flavor-that-stays"),
        pytest.param(request(_resource_flavor("halls"), old=_resource_flavor("")), id="a-flavor-that-is-attached"),
        pytest.param(request({**_levels(HOSTNAME, "a.example/x"), **_MADE}), id="what-a-controller-made"),
    ],
)
def test_of_what_nothing_is_said(asked: Any) -> None:
    """Nothing is looked up for it."""
    assert list(_TOPOLOGY_RULE.validate(asked, _facts("Job a/train"))) == []


_DETACHED = "is detached from ResourceFlavor gpus, and is named by Job a/train"
_REORDERED = request(_levels("a.example/x", "a.example/y"), old=_levels("a.example/y", "a.example/x"))
_SHORTENED = request(_levels("a.example/x"), old=_levels("a.example/x", "a.example/y"))


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (_SHORTENED, "loses a.example/y, and is named by Job a/train"),
        (_REORDERED, "has its levels in another order, and is named by Job a/train"),
        (request(_resource_flavor(""), old=_resource_flavor("halls")), _DETACHED),
        (request(None, old=_resource_flavor("halls")), _DETACHED),
    ],
)
def test_workloads_that_name_what_changes(asked: Any, problem: str) -> None:
    """Those are named whose Pods would wait for what is not there any more."""
    (found,) = _TOPOLOGY_RULE.validate(asked, _facts("Job a/train"))

    assert (found.value, found.problem, found.verdict) == ('topology "halls"', problem, "")


@pytest.mark.parametrize(
    ("leaving", "verdicts"), [("deny", [""]), ("warn", ["warn"]), ("audit", ["audit"]), ("off", [])]
)
def test_what_a_deletion_leads_to(leaving: Any, verdicts: list[str]) -> None:
    """It is a setting, whatever else the rule refuses; a warning of a change is short and names one workload."""
    rule = TopologyObjects(Catalog(()), leaving)
    several = [found.problem for found in rule.validate(_SHORTENED, _facts("Job a/1", "Job a/2", "Job a/3"))]

    assert [found.verdict for found in rule.validate(request(None, old=_topology()), _facts("Job a/train"))] == verdicts
    named = "Job a/1 and 2 more" if leaving == "warn" else "Job a/1, Job a/2, Job a/3"
    assert several == [f"loses a.example/y, and is named by {named}" for _ in verdicts]


@rows(__file__, "written")
def test_a_written_topology(levels: list[str], told: str, *, is_broken: bool) -> None:
    """What cannot work is refused; of what may not be meant so a warning tells, with what to do."""
    halls = {"a.example/hall": "east", "ib.coreweave.cloud/fabric": "f1", "node.coreweave.cloud/rack": "1"}
    nodes = (
        Node("n1", {**halls, "a.example/room": "one", "backend.coreweave.cloud/superpod": "1"}),
        Node("n2", {**halls, "a.example/room": "two", "backend.coreweave.cloud/superpod": "2"}),
    )
    found = list(_TOPOLOGY_RULE.validate(request(_levels(*levels)), StaticFacts(TODAY, cluster_nodes=nodes)))

    assert [violation.verdict for violation in found] == ([] if not told else [""] if is_broken else ["warn"])
    assert [each for each in found if not (each.line if is_broken else each.warning).startswith(told)] == []


def test_a_binding_of_grove_by_its_fields() -> None:
    """Its levels have a domain and a key, and messages name these."""
    binding = resource("grove.io/v1alpha1", "ClusterTopologyBinding", name="halls")
    levels = [{"domain": "rack", "key": "a.example/x"}, {"domain": "rack", "key": "a.example/y"}]

    found = _TOPOLOGY_RULE.validate(request({**binding, "spec": {"levels": levels}}), FACTS)

    assert [violation.path for violation in found] == ["spec.levels[0].domain", "spec.levels[1].domain"]
