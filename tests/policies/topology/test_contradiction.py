"""Node pools that a workload names, and topologies that differ between them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.engine.match import LabelSelector, SelectorRequirement
from policies.engine.violation import Violation
from policies.topology.messages import conflicts
from policies.topology.template import Template
from policies.topology.topology import Catalog, Topology, level

_KEY, _OTHER = "compute.coreweave.com/node-pool", "runai/node-pool"


def _topology(name: str, key: str, *pools: str) -> Topology:
    pool = LabelSelector((SelectorRequirement(key, "In", pools),))
    return Topology(name, (level("rack"),), pool=pool)


_CATALOG = Catalog(
    [
        _topology("north", _KEY, "a", "b"),
        _topology("south", _KEY, "c"),
        _topology("east", _OTHER, "c"),
        replace(_topology("all", _KEY), pool=None),
    ]
)


def _selected(*pools: str, key: str = _KEY) -> list[Template]:
    return [Template(("spec", n), {"spec": {"nodeSelector": {key: pool}}}) for n, pool in enumerate(pools)]


def _required(*terms: Any) -> list[Template]:
    terms_in = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return [Template((), {"spec": {"affinity": {"nodeAffinity": terms_in}}})]


def _in(*values: Any, key: str = _KEY, operator: str = "In") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def _violation(path: str, found: str, first: str) -> Violation:
    return Violation(
        "topology",
        path,
        found,
        f"has another topology than {first}.",
        "A workload cannot be placed in node pools of different topologies; its Pods would stay pending.",
        "Choose one of the pools, or split the workload.",
    )


_A, _C = f"{_KEY}=a (north)", f"{_KEY}=c (south)"
_AFFINITY = "spec.affinity.nodeAffinity"


@pytest.mark.parametrize(
    ("templates", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(_selected("a"), [], id="one"),
        pytest.param(_selected("a", "b"), [], id="pools-of-one-topology"),
        pytest.param(_selected("a", "x"), [], id="a-pool-of-no-topology"),
        pytest.param(_selected("x", "y"), [], id="pools-of-no-topology"),
        pytest.param(_selected("a", "c"), [_violation(f"spec[1].spec.nodeSelector[{_KEY}]", _C, _A)], id="two"),
        pytest.param(
            [*_selected("a"), *_selected("c", key=_OTHER)],
            [_violation(f"spec[0].spec.nodeSelector[{_OTHER}]", f"{_OTHER}=c (east)", _A)],
            id="pools-under-two-keys",
        ),
        pytest.param(_required(_in("a", "c")), [_violation(_AFFINITY, _C, _A)], id="values-of-one-term"),
        pytest.param(_required(_in("a"), _in("c")), [_violation(_AFFINITY, _C, _A)], id="two-terms"),
        pytest.param(_required(_in("a"), _in("c"), _in("c")), [_violation(_AFFINITY, _C, _A)], id="told-once"),
        pytest.param(_required(_in("a"), _in("c", operator="NotIn")), [], id="what-is-not-named"),
        pytest.param(_required(_in("a"), _in("c", key="x")), [], id="another-key"),
        pytest.param(
            _required(None, "x", {"matchExpressions": "x"}, {"matchExpressions": [None]}, _in(1, None)), [], id="odd"
        ),
    ],
)
def test_pools(templates: list[Template], expected: list[Violation]) -> None:
    """A pool whose topology differs from that of the first one is a violation at the place where it is named."""
    assert conflicts(None, templates, _CATALOG.by_name, (_KEY, _OTHER)) == expected


def test_what_names_no_pool() -> None:
    """Only configured keys name pools; a topology is for a pool whose label it asks for, not excludes."""
    north = SelectorRequirement(_KEY, "In", ("a",)), SelectorRequirement("example.org/gpu", "Exists")
    south = (SelectorRequirement(_KEY, "NotIn", ("z",)),)
    catalog = Catalog(
        Topology(name, (level("example.org/rack"),), pool=LabelSelector(requirements))
        for name, requirements in (("north", north), ("south", south))
    )
    (odd,) = _required({"matchExpressions": [{"key": _KEY, "operator": "In", "values": 5}]})
    odd.value["spec"]["nodeSelector"] = {_KEY: "a", _OTHER: "b"}

    assert conflicts(None, [odd], catalog.by_name, (_KEY, _OTHER)) == []
    assert conflicts(None, _selected("a", "c"), _CATALOG.by_name, (_OTHER,)) == []


def test_labels_name_pools_too() -> None:
    """A pool that the workload or a template names by a label counts like one of a node selector."""
    labelled = {"metadata": {"labels": {_KEY: "a"}}}
    template = Template(("spec", "template"), {"metadata": {"labels": {_KEY: "c"}}, "spec": {}})

    assert conflicts(labelled, [template], _CATALOG.by_name, (_KEY,)) == [
        _violation(f"spec.template.metadata.labels[{_KEY}]", _C, _A)
    ]
