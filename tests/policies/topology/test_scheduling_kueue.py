"""Kueue: the annotation that a template gets, and what Kueue will not do."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import FACTS, WORKLOADS, Json, merged, pod_spec, request

from policies.topology.annotation import Template
from policies.topology.catalog import BUILT_IN, Catalog
from policies.topology.constraint import Constraint, Options, read
from policies.topology.scheduling import kueue

_TOPOLOGY = "kai.scheduler/topology"
_RACK = "node.coreweave.cloud/rack"


def _job(topology: str = "coreweave", **placements: str) -> Json:
    annotations = {f"{_TOPOLOGY}-{strength}-placement": level for strength, level in placements.items()}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "labels": {"kueue.x-k8s.io/queue-name": "team"},
            "annotations": {_TOPOLOGY: topology, **annotations},
        },
        "spec": {"template": {"metadata": {}, "spec": pod_spec()}},
    }


def _constraint(obj: Json) -> Constraint:
    submission = read(request(obj), Catalog(BUILT_IN), Options(WORKLOADS), FACTS)
    assert submission is not None
    return submission.constraints[0]


def _lines(constraint: Constraint, flavored: Any) -> list[str]:
    return [violation.warning for violation in kueue.warnings(constraint, flavored)]


@pytest.mark.parametrize(
    ("placements", "annotation"),
    [
        ({"required": "rack"}, ("kueue.x-k8s.io/podset-required-topology", _RACK)),
        ({"preferred": "rack"}, ("kueue.x-k8s.io/podset-preferred-topology", _RACK)),
        (
            {"required": "superpod", "preferred": "rack"},
            ("kueue.x-k8s.io/podset-required-topology", "backend.coreweave.cloud/superpod"),
        ),
        ({}, None),
    ],
)
def test_a_placement_becomes_kueues_annotation(placements: dict[str, str], annotation: Any) -> None:
    """The level goes to Kueue under its whole key; of two levels, which Kueue would refuse, the required one."""
    assert kueue.annotation(_constraint(_job(**placements))) == annotation


def test_an_annotation_of_the_users_own_counts() -> None:
    """A template with one of Kueue's annotations gets no second one, which Kueue would refuse."""
    own = {"kueue.x-k8s.io/podset-unconstrained-topology": "true"}
    job = merged(_job(required="rack"), {"spec": {"template": {"metadata": {"annotations": own}}}})

    assert kueue.has(_constraint(job).template)
    assert not kueue.has(_constraint(_job(required="rack")).template)


@pytest.mark.parametrize(
    ("metadata", "gates", "is_kueues"),
    [
        ({}, [], False),
        ({"labels": {"kueue.x-k8s.io/podset": "main"}}, [], True),
        ({"annotations": {"kueue.x-k8s.io/workload": "job-train"}}, [], True),
        ({}, [{"name": "kueue.x-k8s.io/topology"}], True),
        ({"labels": {"example.org/kueue": "x"}}, [{"name": "example.org/gate"}], False),
    ],
    ids=["nothing", "label", "annotation", "gate", "others"],
)
def test_pods_that_kueue_manages(metadata: Json, gates: list[Any], is_kueues: bool) -> None:  # noqa: FBT001
    """A gate, a label or an annotation of Kueue's tells that a Pod is its own."""
    assert kueue.manages(Template((), {"metadata": metadata, "spec": {"schedulingGates": gates}})) is is_kueues


def test_what_kueue_will_not_do_is_said() -> None:
    """Two levels, a domain, a union of levels, and a topology that no flavor names each cause a warning."""
    both, union = _job(required="superpod", preferred="rack"), _job("topograph-nvlink", required="nvlink")

    assert _lines(_constraint(_job(required="rack")), {"coreweave"}) == []
    assert _lines(_constraint(_job(required="rack")), None) == []
    assert _lines(_constraint(both), {"coreweave"}) == [
        'Kueue takes one level: required "superpod" counts, preferred "rack" does not'
    ]
    assert _lines(_constraint(_job(required="rack=12")), {"coreweave"}) == [
        'Kueue takes levels only: of "rack=12" it is told "rack"; choose the domain by a node selector'
    ]
    assert _lines(_constraint(union), {"topograph-nvlink"}) == [
        (
            'Kueue does not know "nvlink": name one of its levels, nvidia.com/gpu.clique, '
            "network.topology.nvidia.com/accelerator"
        )
    ]
    assert kueue.annotation(_constraint(union)) is None
    assert _lines(_constraint(_job(required="rack")), {"dgx"}) == [
        'no ResourceFlavor of Kueue names topology "coreweave", so Kueue admits nothing that needs it'
    ]
