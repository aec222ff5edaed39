"""What is written into a Pod when its gate opens, and what an opened Pod tells."""

from __future__ import annotations

from typing import Any

import jsonpatch
import pytest
from support.gangs.world import HOST, required

from policies.topology.gang import Address, Step
from policies.topology.placement import GATE, PLACEMENT
from policies.topology.placer.opening import Goal, Opening, Seat, goal, is_fixed, packed
from policies.topology.topology import BUILT_IN, Catalog

Json = dict[str, Any]
_CATALOG = Catalog(BUILT_IN)
_BACKEND, _IB = "backend.coreweave.cloud/superpod", "ib.coreweave.cloud/superpod"
_SUPERPOD: Address = (Step((_BACKEND, _IB), "2"),)
_NEED, _WISH = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"


def _pod(gates: tuple[str, ...] = (GATE,), **spec: Any) -> Json:
    return {
        "metadata": {"uid": "u", "annotations": {"a": "b"}},
        "spec": {"schedulingGates": [{"name": name} for name in gates], **spec},
    }


def _goal(annotations: dict[str, str]) -> Goal:
    made = goal(annotations, _CATALOG)
    assert isinstance(made, Goal)
    return made


def _opened(pod: Json, seat: Seat, annotations: dict[str, str] | None = None, **cliques: list[str]) -> Json:
    aim = _goal(annotations or required("superpod"))
    written = Opening("team", "p", "u", pod, aim, seat, cliques, "because").patch
    opened: Json = jsonpatch.apply_patch(pod, written)
    return opened


def _is_in(key: str, *values: str) -> Json:
    return {"key": key, "operator": "In", "values": list(values)}


def _node(pod: Json) -> tuple[list[list[Json]], list[list[Json]]]:
    """The required and the preferred terms of a Pod, each as its expressions."""
    node = pod["spec"]["affinity"]["nodeAffinity"]
    terms = node.get(_NEED, {}).get("nodeSelectorTerms", [])
    return (
        [term.get("matchExpressions", []) for term in terms],
        [one["preference"]["matchExpressions"] for one in node.get(_WISH, [])],
    )


def test_only_our_gate_goes() -> None:
    """It is removed wherever it stands, with a test of its name and of the Pod's uid."""
    pod = _pod(("other", GATE))
    opened = _opened(pod, Seat({_BACKEND: "2", HOST: "n1"}, _SUPERPOD))

    assert opened["spec"]["schedulingGates"] == [{"name": "other"}]
    assert opened["metadata"]["annotations"] == {"a": "b", PLACEMENT: "because"}
    changed = {**pod, "metadata": {**pod["metadata"], "uid": "v"}}
    written = Opening("team", "p", "u", pod, _goal(required("superpod")), Seat({}, _SUPERPOD), {}, "").patch
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch(changed, written)
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch(_pod((GATE, "other")), written)


def test_terms_stay_as_many() -> None:
    """Each term is narrowed once by the key that the packed Node carries; one that matches nothing is left so."""
    field = _is_in("metadata.name", "n1")
    for key in (_BACKEND, _IB):
        own = _is_in(key, "2")
        terms = [{"matchExpressions": [own]}, {"matchFields": [field]}, {}, {"matchExpressions": [_is_in("pool", "x")]}]
        affinity = {"nodeAffinity": {_NEED: {"nodeSelectorTerms": terms}}, "podAffinity": {"kept": True}}
        opened = _opened(_pod(affinity=affinity), Seat({key: "2"}, _SUPERPOD))["spec"]["affinity"]

        assert opened["podAffinity"] == {"kept": True}
        assert opened["nodeAffinity"][_NEED]["nodeSelectorTerms"] == [
            {"matchExpressions": [own]},
            {"matchFields": [field], "matchExpressions": [own]},
            {},
            {"matchExpressions": [_is_in("pool", "x"), own]},
        ]


def test_preferences() -> None:
    """The inner domain and the packed Node are preferred, after those of the user."""
    mine = {"weight": 1, "preference": {"matchExpressions": [_is_in("x", "y")]}}
    pod = _pod(affinity={"nodeAffinity": {_WISH: [mine]}})
    rack: Address = (*_SUPERPOD, Step(("node.coreweave.cloud/rack",), "7"))
    opened = _opened(pod, Seat({_BACKEND: "2", HOST: "n1"}, _SUPERPOD, rack))

    assert _node(opened) == (
        [[_is_in(_BACKEND, "2")]],
        [[_is_in("x", "y")], [_is_in(_BACKEND, "2"), _is_in("node.coreweave.cloud/rack", "7")], [_is_in(HOST, "n1")]],
    )
    assert (packed(opened), is_fixed(opened)) == ("n1", False)


def test_the_packed_node_may_be_required() -> None:
    """Then each term names it."""
    terms = [{"matchExpressions": [_is_in("pool", value)]} for value in "xy"]
    pod = _pod(affinity={"nodeAffinity": {_NEED: {"nodeSelectorTerms": terms}}})
    opened = _opened(pod, Seat({_BACKEND: "2", HOST: "n1"}, _SUPERPOD, is_fixed=True))

    assert [term[-1] for term in _node(opened)[0]] == [_is_in(HOST, "n1")] * 2
    assert (packed(opened), is_fixed(opened)) == ("n1", True)


def test_preferred_alone_requires_nothing() -> None:
    """A gang that only prefers to be together gets no requirement, and without a Node no preference for one."""
    opened = _opened(_pod(), Seat({_BACKEND: "2"}, _SUPERPOD, _SUPERPOD), required("", preferred="superpod"))

    assert _node(opened) == ([], [[_is_in(_BACKEND, "2")]])
    assert (packed(opened), is_fixed(opened)) == ("", False)
    bare = _opened(_pod(), Seat({}), required("", preferred="superpod"))
    assert "affinity" not in bare["spec"]


def test_nvl_domains_are_written_as_cliques() -> None:
    """No label names an NVL Domain."""
    address: Address = (Step(("nvidia.com/nvl-domain",), "u"),)
    labels = {"nvidia.com/nvl-domain": "u", "nvidia.com/gpu.clique": "u.1"}
    opened = _opened(_pod(), Seat(labels, address), required("nvl-domain", "nvlink"), u=["u.1", "u.2"])

    assert _node(opened)[0] == [[_is_in("nvidia.com/gpu.clique", "u.1", "u.2")]]


def test_the_topologys_requirement() -> None:
    """The flavor is required in the words that the packed Node knows."""
    annotations = required("superpod", "coreweave-infiniband")
    new, old = (
        {_BACKEND: "2", "backend.coreweave.cloud/flavor": "infiniband"},
        {_IB: "2", "ib.coreweave.cloud/fabric": "f"},
    )

    assert _node(_opened(_pod(), Seat(new, _SUPERPOD), annotations))[0] == [
        [_is_in(_BACKEND, "2"), _is_in("backend.coreweave.cloud/flavor", "infiniband")]
    ]
    assert _node(_opened(_pod(), Seat(old, _SUPERPOD), annotations))[0] == [
        [_is_in(_IB, "2"), {"key": "ib.coreweave.cloud/fabric", "operator": "Exists"}]
    ]


def test_what_other_pods_tell() -> None:
    """A Pod that was opened by somebody else tells nothing, whatever it is."""
    odd: list[Json] = [
        {_WISH: "x", _NEED: "x"},
        {_WISH: [{"preference": {"matchExpressions": ["x"]}}]},
        {_NEED: {"nodeSelectorTerms": [{}]}},
    ]
    pods: list[Json] = [{}, *({"spec": {"affinity": {"nodeAffinity": node}}} for node in odd)]

    assert [(packed(pod), is_fixed(pod)) for pod in pods] == [("", False)] * 4


def test_placements_that_mean_nothing() -> None:
    """A topology or a level that is gone is told."""
    found = [goal(required(*placement), _CATALOG) for placement in (("rack", "nowhere"), ("room",))]

    assert [str(each).startswith('topology "nowhere" is not known: ') for each in found] == [True, False]
    assert str(found[1]).startswith('kai.scheduler/topology-required-placement "room" ')
