"""The rule for selectors: what is looked at, and which Nodes count. What is said stands in the table of mistakes."""

from __future__ import annotations

from typing import Any

from support.builders import TODAY, Json, at, deployment, merged, node_affinity, pod, request, resource

from policies import nodepool
from policies.engine.facts import Node, StaticFacts
from policies.objects.workload import BUILT_IN, table
from policies.selectors import MOST_KEPT, MOST_KEYS, Census, NodeSelectors, reads
from policies.vocabulary import INSTANCE_TYPE, RESERVED

_SUPERPOD, _IB = "backend.coreweave.cloud/superpod", "ib.coreweave.cloud/superpod"
_ROCE = [{"key": "backend.coreweave.cloud/flavor", "operator": "In", "values": ["roce"]}]
_NODES = tuple(Node(f"n{number}", {_SUPERPOD: str(number), RESERVED: "ours"}) for number in (1, 2))
_ROWS = {row.group_kind: row for row in table(BUILT_IN).values() if row.templates}
_RULE = NodeSelectors(_ROWS, "")


def _selecting(key: str, value: str) -> Json:
    return deployment(nodeSelector={key: value})


def _said(
    obj: Json, old: Json | None = None, facts: StaticFacts | None = None, rule: NodeSelectors = _RULE
) -> list[str]:
    facts = facts or StaticFacts(TODAY, cluster_nodes=_NODES)
    return [violation.problem for violation in rule.validate(request(obj, old=old), facts)]


def test_what_was_there_before() -> None:
    """An update that leaves the selectors as they are gets no words, also where no Node carries them any more."""
    old = _selecting(_SUPERPOD, "9")

    assert len(_said(old)) == 1
    assert _said(merged(old, {"metadata": {"labels": {"a": "b"}}}), old) == []
    assert len(_said(_selecting(_SUPERPOD, "8"), old)) == 1


def test_objects_that_get_no_words() -> None:
    """What a controller owns was told of at its owner, and what is being deleted will place nothing."""
    for metadata in ({"ownerReferences": [{"controller": True}]}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}):
        assert _said(merged(_selecting(_SUPERPOD, "9"), {"metadata": metadata})) == []


def test_terms_that_the_service_wrote() -> None:
    """Nothing is said of the older names in the affinity of a Pod that Pod affinity keeps with its gang."""
    terms = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": ["9"]}, *_ROCE]} for key in (_SUPERPOD, _IB)
    ]
    written = pod(affinity=node_affinity(*terms))

    assert len(_said(written)) == 1
    assert _said(merged(written, {"metadata": {"labels": {"cks-admission.dev/gang": "1"}}})) == []


def test_nodes_to_come() -> None:
    """What a pool would put on Nodes counts as carried, also the type of a machine of which there is none yet."""
    spec = {"instanceType": "b200-8x", "nodeLabels": {_SUPERPOD: "9"}}
    coming = nodepool.labels(resource("compute.coreweave.com/v1alpha1", "NodePool", {"spec": spec}))
    facts = StaticFacts(TODAY, cluster_nodes=_NODES, coming=coming)

    assert [
        _said(_selecting(key, value), facts=facts) for key, value in ((_SUPERPOD, "9"), (INSTANCE_TYPE, "b200-8x"))
    ] == [[], []]
    assert len(_said(_selecting(_SUPERPOD, "8"), facts=facts)) == 1


def test_what_pools_say() -> None:
    """CoreWeave's pools name labels and a type, Karpenter's a template and values of which one is given."""
    requirement = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}
    made = {"metadata": {"labels": {"team": "x"}}, "spec": {"requirements": [requirement, {"key": 7}]}}
    karpenter = resource("karpenter.sh/v1", "NodePool", {"spec": {"template": made}}, name="k")
    own = {"karpenter.sh/nodepool": "k", "team": "x"}

    assert nodepool.labels(karpenter) == (own, *({**own, "topology.kubernetes.io/zone": zone} for zone in ("a", "b")))
    assert nodepool.labels({"apiVersion": "v1", "kind": "Node", "metadata": {}}) == ()


def test_whose_nodes() -> None:
    """The organization is that of the configuration, and that of the Namespace."""
    facts = StaticFacts(TODAY, {"default": {"ns.coreweave.cloud/org": "ours"}}, cluster_nodes=_NODES)
    configured = NodeSelectors(_ROWS, "theirs")

    assert _said(_selecting(RESERVED, "ours"), facts=facts) == []
    assert [_said(_selecting(RESERVED, "others"), facts=facts, rule=rule) for rule in (_RULE, configured)] == [
        [f"{RESERVED}=others selects Nodes that are not yours."]
    ] * 2


def test_many_nodes() -> None:
    """Beyond a limit Nodes are not compared with all that is required together."""
    nodes = tuple(Node(f"n{number}", {_SUPERPOD: str(number), "a": str(number)}) for number in range(1000))
    values = [str(number) for number in range(300)]
    term = {"matchExpressions": [{"key": _SUPERPOD, "operator": "In", "values": values}]}
    obj = pod(nodeSelector={"a": "999"}, affinity=node_affinity(term))
    facts = StaticFacts(TODAY, cluster_nodes=nodes)

    assert _said(obj, facts=facts) == []
    assert _said(obj, facts=StaticFacts(TODAY, cluster_nodes=nodes[400:600])) == [
        f"{_SUPERPOD} in (0, 1, 2, …) is carried by no Node."
    ]


def test_what_is_read() -> None:
    """Of each template the rule reads the labels and the three fields that select."""
    assert reads([_ROWS["batch", "Job"]]) == {
        f"spec.template.{path}"
        for path in ("metadata.labels", "spec.nodeSelector", "spec.affinity", "spec.topologySpreadConstraints")
    }


_TERMS = {"requiredDuringSchedulingIgnoredDuringExecution": [7, {"topologyKey": 7}]}


def test_odd_shapes() -> None:
    """What the API server refuses is left to it."""
    specs: list[Any] = [
        *(7, {"nodeSelector": 7, "affinity": [], "topologySpreadConstraints": {"a": 1}}),
        {"nodeSelector": {_SUPERPOD: 7}, "affinity": {"nodeAffinity": 7, "podAffinity": _TERMS}},
        {"topologySpreadConstraints": [7, {"topologyKey": None}]},
    ]

    assert [spec for spec in specs if _said(resource("apps/v1", "Deployment", at("spec.template.spec", spec)))] == []


_POOLS = (Node("a", {"pool": "x"}), Node("b", {"pool": "y"}))


def test_what_was_counted_is_kept_while_the_nodes_are_the_same() -> None:
    """A later review gets the same counts, and others as soon as a Node is another."""
    census = Census(_POOLS)
    counts = census.values("pool")

    assert census.renewed(_POOLS, ()).values("pool") is counts
    changed = census.renewed((_POOLS[0],), ())
    assert dict(changed.values("pool")) == {"x": 1}


def test_a_review_has_so_many_keys_counted() -> None:
    """Beyond them nothing is known of further keys, until the next review."""
    census = Census(_POOLS)
    for number in range(MOST_KEYS):
        census.values(f"key-{number}")

    assert (census.knows("more"), census.knows("key-0")) == (False, True)
    assert census.renewed(_POOLS, ()).knows("more")


def test_what_is_kept_has_a_bound() -> None:
    """After reviews that ask for ever new keys, the counts begin anew."""
    census = Census(_POOLS)
    for number in range(MOST_KEPT + 1):
        census.values(f"key-{number}")

    assert census.renewed(_POOLS, ()) is not census
