"""What the labels of Nodes say that is wrong with the network behind them."""

from __future__ import annotations

import pytest

from policies.engine.facts import Node
from policies.topology.nodes.tree import MEANINGS, Flaw, flaws

_BACKEND, _IB = "backend.coreweave.cloud/", "ib.coreweave.cloud/"
Values = dict[str, str]


def _node(name: str, backend: Values | None = None, ib: Values | None = None) -> Node:
    place = {"fabric": "f1", "superpod": "1", "leafgroup": "1", "flavor": "infiniband"} if backend is None else backend
    own = {f"{_BACKEND}{key}": value for key, value in place.items()}
    return Node(name, {"kubernetes.io/hostname": name} | own | {f"{_IB}{key}": v for key, v in (ib or {}).items()})


def _with(**values: str) -> Values:
    place = {"fabric": "f1", "superpod": "1", "leafgroup": "1", "flavor": "infiniband"} | values
    return {key.replace("__", "-").replace("_", "."): value for key, value in place.items()}


_WELL = _node("well")
_PORT = {"neighbors_expected_eth0_device": "leaf-1", "neighbors_current_eth0_device": "leaf-1"}
_THREE = "; ".join(f"eth{number} has port-id none, expected 3" for number in "123")


@pytest.mark.parametrize(
    ("node", "flaw"),
    [
        pytest.param(_node("n"), None, id="well"),
        pytest.param(Node("n", {"kubernetes.io/hostname": "n"}), None, id="no-network"),
        pytest.param(_node("n", {}, _with()), None, id="older-keys-alone"),
        pytest.param(_node("n", ib={"fabric": "f1", "superpod": "1", "leafgroup": "1"}), None, id="both-keys"),
        *(
            pytest.param(_node("n", _with(speed_current=now, speed_expected=least)), None, id=f"{now}-of-{least}")
            for now, least in (("400G", "400G"), ("800G", "400G"), ("1.6T", "800Gbps"))
        ),
        pytest.param(
            _node("n", _with(speed_current="200G", speed_expected="400G")),
            Flaw("slow", "speed is 200G, expected 400G"),
            id="slower",
        ),
        pytest.param(
            _node("n", {}, _with(speed_current="HDR", speed_expected="NDR")),
            Flaw("slow", "speed is HDR, expected NDR"),
            id="another-speed-by-its-name",
        ),
        pytest.param(_node("n", _with(speed_expected="400")), None, id="a-speed-that-no-node-tells"),
        pytest.param(_node("n", _with(**_PORT)), None, id="wired-well"),
        pytest.param(_node("n", _with(neighbors_expected_eth0_port__name="swp1")), None, id="port-names-are-optional"),
        pytest.param(
            _node("n", _with(**_PORT | {"neighbors_current_eth0_device": "leaf-2"})),
            Flaw("miswired", "eth0 has device leaf-2, expected leaf-1"),
            id="another-switch",
        ),
        pytest.param(
            _node("n", _with(neighbors_expected_eth0_device="leaf-1", neighbors_expected_eth0_port__id="3")),
            Flaw("miswired", "eth0 has device none, expected leaf-1; eth0 has port-id none, expected 3"),
            id="nothing-at-the-port",
        ),
        pytest.param(
            _node("n", _with(**{f"neighbors_expected_eth{number}_port__id": "3" for number in "123"})),
            Flaw("miswired", _THREE),
            id="many-ports",
        ),
        pytest.param(
            _node("n", {"fabric": "f1", "flavor": "infiniband"}),
            Flaw("incomplete", "no superpod, no leafgroup"),
            id="half",
        ),
        pytest.param(_node("n", {"fabric": "r1", "flavor": "roce"}), None, id="what-no-such-network-has"),
        pytest.param(
            _node("n", {"fabric": "f1", "superpod": "1", "leafgroup": "1"}),
            Flaw("incomplete", "no flavor"),
            id="no-flavor",
        ),
        pytest.param(
            _node("n", {"fabric": "f1", "superpod": "1", "flavor": "infiniband"}, {"leafgroup": "1"}),
            Flaw("mixed", "fabric, superpod by backend alone, leafgroup by ib alone"),
            id="one-level-by-each",
        ),
        pytest.param(
            _node("n", ib={"fabric": "f1", "superpod": "2", "leafgroup": "1"}),
            Flaw("mixed", "superpod is 1 by backend and 2 by ib"),
            id="two-values",
        ),
        pytest.param(_node("n", _with(superpod="2")), None, id="superpods-that-count-their-leafgroups"),
        pytest.param(_node("n", _with(superpod="2", fabric="f2")), None, id="the-same-number-in-another-fabric"),
        pytest.param(_node("n", _with(superpod="2", leafgroup__name="b")), None, id="another-name"),
    ],
)
def test_the_flaws_of_a_node(node: Node, flaw: Flaw | None) -> None:
    """Beside a Node that is well, each flaw is named with what was found and what there should be."""
    assert list(flaws((_WELL, node)).get("n", ())) == [flaw for flaw in (flaw,) if flaw]


def test_a_leafgroup_that_is_split_by_its_name() -> None:
    """A name stands for one leafgroup, however often its number is used."""
    there = _node("a", _with(leafgroup__name="lg-1")), _node("b", _with(leafgroup__name="lg-1", superpod="2"))

    split = (Flaw("split", "leafgroup 1 of fabric f1 is in superpods 1 and 2"),)
    assert flaws(there) == {"a": split, "b": split}


def test_only_nodes_with_flaws_are_there() -> None:
    """Both Nodes of a split leafgroup are named, and no others; every kind has a meaning."""
    well = (_WELL, _node("third", _with(leafgroup="3", superpod="2")))
    found = flaws((*well, _node("a", _with(leafgroup="2")), _node("b", _with(leafgroup="2", superpod="2"))))

    fast = _node("c", _with(speed_current="400", speed_expected="400"))
    half = {"d": (Flaw("incomplete", "no speed.current"),)}
    assert flaws((fast, _node("d", _with(speed_expected="400")))) == half
    split = (Flaw("split", "leafgroup 2 of fabric f1 is in superpods 1 and 2"),)
    assert found == {"a": split, "b": split}
    assert list(MEANINGS) == ["slow", "miswired", "split", "incomplete", "mixed"]
