"""Topologies as people write them: three forms, and everything that is wrong with one."""

from __future__ import annotations

from typing import Any

import pytest

from policies.engine.match import LabelSelector, SelectorRequirement
from policies.topology.objects import TopologyError, make, read, source_of
from policies.topology.topology import Topology, level

_BLOCK, _RACK = "cloud.example.org/block", "cloud.example.org/rack"


def _kai(*levels: Any, name: Any = "halls") -> Any:
    spec = {"levels": list(levels)}
    return {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(
            _kai({"nodeLabel": _BLOCK, "alias": "block-1"}, {"nodeLabel": _RACK}),
            Topology("halls", (level(_BLOCK, "block-1"), level(_RACK)), source="a file", objects=("KAI",)),
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
    assert [
        source_of(_kai(_level)),
        source_of({**_kai(_level), "apiVersion": "kueue.x-k8s.io/v1beta1"}),
    ] == ["KAI Topology halls", "Kueue Topology halls"]


def test_an_entry_of_the_configuration() -> None:
    """It may also say what Nodes must have, and for which pool it is."""
    requirement = LabelSelector((SelectorRequirement("a", "Exists"),))
    pool = LabelSelector((SelectorRequirement("b", "In", ("c",)),))

    made = make("halls", (_BLOCK,), "the configuration", requirement=requirement, pool=pool)

    assert made == Topology("halls", (level(_BLOCK),), (), requirement, pool, "the configuration")


_KINDS = "a Topology of kai.scheduler or kueue.x-k8s.io, or a ClusterTopologyBinding of grove.io"
_KEY = "a level is the key of a node label, such as example.org/rack; found"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        pytest.param([], "a map was expected, found a list", id="list"),
        pytest.param(None, "a map was expected, found null", id="nothing"),
        pytest.param(
            {"apiVersion": "v1", "kind": "Topology"},
            f'kind: {_KINDS} was expected, found "Topology" of "v1"',
            id="another-group",
        ),
        pytest.param(
            {"apiVersion": "kai.scheduler/v1", "kind": "Queue"},
            f'kind: {_KINDS} was expected, found "Queue" of "kai.scheduler/v1"',
            id="another-kind",
        ),
        pytest.param(
            {"kind": "Topology"},
            f'kind: {_KINDS} was expected, found "Topology" of null',
            id="no-version",
        ),
        pytest.param(
            _kai({"nodeLabel": _BLOCK}, name=None), "metadata.name: a topology needs a name, found null", id="no-name"
        ),
        pytest.param(
            {"name": "", "levels": [_BLOCK]}, 'name: a topology needs a name, found ""', id="empty-name-for-runai"
        ),
        pytest.param(
            {**_kai(), "spec": None},
            "spec.levels: a topology needs levels, farthest first, found none",
            id="no-spec",
        ),
        pytest.param(
            {"name": "halls", "levels": []},
            "levels: a topology needs levels, farthest first, found none",
            id="no-levels",
        ),
        pytest.param(
            {"name": "halls", "levels": "rack"},
            'levels: a topology needs levels, farthest first, found "rack"',
            id="text-for-levels",
        ),
        pytest.param(
            {"name": "halls", "levels": [f"example.org/l{number}" for number in range(17)]},
            "levels: a topology has 16 levels at most, found 17",
            id="too-many-levels",
        ),
        pytest.param({"name": "halls", "levels": ["a b"]}, f'levels[0]: {_KEY} "a b"', id="no-label-key"),
        pytest.param({"name": "halls", "levels": [_BLOCK, 3]}, f"levels[1]: {_KEY} the number 3", id="number"),
        pytest.param(_kai({"alias": "x"}), f"spec.levels[0].nodeLabel: {_KEY} null", id="no-key"),
        pytest.param(_kai({"nodeLabel": "/rack"}), f'spec.levels[0].nodeLabel: {_KEY} "/rack"', id="empty-prefix"),
        pytest.param(_kai({"nodeLabel": "rack\n"}), f'spec.levels[0].nodeLabel: {_KEY} "rack\\n"', id="line-break"),
        pytest.param(
            _kai({"nodeLabel": _BLOCK, "alias": 3}),
            "spec.levels[0].alias: an alias is a name, found the number 3",
            id="alias",
        ),
        pytest.param(
            _kai({"nodeLabel": "backend.coreweave.cloud/speed.current"}),
            'spec.levels[0].nodeLabel: "backend.coreweave.cloud/speed.current" tells how a Node is connected, '
            "not where it is, and is no level; name backend.coreweave.cloud/leafgroup",
            id="speed",
        ),
        pytest.param(
            _kai({"nodeLabel": _BLOCK}, {"nodeLabel": _BLOCK}),
            f'spec.levels[1]: "{_BLOCK}" is the same level as "{_BLOCK}"',
            id="twice",
        ),
        pytest.param(
            {"name": "halls", "levels": ["backend.coreweave.cloud/fabric", "ib.coreweave.cloud/fabric"]},
            'levels[1]: "ib.coreweave.cloud/fabric" is the same level as "backend.coreweave.cloud/fabric"',
            id="twice-under-two-names",
        ),
        pytest.param(
            {"name": "halls", "levels": ["kubernetes.io/hostname", _RACK]},
            "levels[0]: kubernetes.io/hostname is a single Node, so it must be the last level",
            id="hostname-first",
        ),
        pytest.param(
            _kai({"nodeLabel": _BLOCK, "alias": "a"}, {"nodeLabel": _RACK, "alias": "a"}),
            'spec.levels[0].alias: "a" is the name of another level; '
            'spec.levels[1].alias: "a" is the name of another level',
            id="aliases-that-are-equal",
        ),
        pytest.param(
            _kai({"nodeLabel": _BLOCK, "alias": _RACK}, {"nodeLabel": _RACK}),
            f'spec.levels[0].alias: "{_RACK}" is the name of another level',
            id="alias-that-is-a-key",
        ),
        pytest.param(
            {"levels": [1, "kubernetes.io/hostname", _RACK]},
            f"name: a topology needs a name, found null; levels[0]: {_KEY} the number 1; "
            "levels[1]: kubernetes.io/hostname is a single Node, so it must be the last level",
            id="several-mistakes",
        ),
    ],
)
def test_what_is_wrong(document: Any, message: str) -> None:
    """Every mistake is told with its place and what was found."""
    with pytest.raises(TopologyError) as raised:
        read(document, "a file")

    assert str(raised.value) == message


def test_problems_have_their_places() -> None:
    """Whoever reads a file can find the line of each mistake."""
    with pytest.raises(TopologyError) as raised:
        make("halls", [1], "the configuration", at=("topology", "topologies", 2))

    assert raised.value.problems == ((("topology", "topologies", 2, "levels", 0), f"{_KEY} the number 1"),)
