"""Levels: keys that are the same, values that are too long, and labels that are no level."""

from __future__ import annotations

import pytest

from policies.topology.topology import (
    Level,
    Topology,
    fnv1a_64,
    label_value,
    level,
    no_level,
    shortened,
    value_problem,
)
from policies.vocabulary import equivalent

_LEAF = "network.topology.nvidia.com/leaf"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"", 0xCBF29CE484222325, id="nothing"),
        pytest.param(b"a", 0xAF63DC4C8601EC8C, id="a"),
        pytest.param(b"foobar", 0x85944171F73967E8, id="foobar"),
    ],
)
def test_the_hash(data: bytes, expected: int) -> None:
    """The published test vectors of the 64-bit FNV-1a hash come out."""
    assert fnv1a_64(data) == expected


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        pytest.param(_LEAF, "a" * 63, "a" * 63, id="63-characters"),
        pytest.param(_LEAF, "a" * 64, "xdb007849f35ebbe5", id="64-characters"),
        pytest.param(_LEAF, "a" * 69, "x65863cd5b882ce8", id="one-leading-zero"),
        pytest.param(_LEAF, "d" * 73, "x2659ad613b6b33", id="two-leading-zeros"),
        pytest.param("fabric.topograph.run/tier-1", "a" * 69, "x65863cd5b882ce8", id="tier"),
        pytest.param("accelerator.topograph.run/domain", "a" * 69, "x65863cd5b882ce8", id="domain"),
        pytest.param("node.coreweave.cloud/rack", "a" * 64, "a" * 64, id="key-that-topograph-does-not-write"),
    ],
)
def test_values_as_nodes_carry_them(key: str, value: str, expected: str) -> None:
    """Of a value that is too long Topograph writes x and the hash, without leading zeros, under its own keys."""
    assert label_value(level(key), key, value) == expected


def test_values_under_keys_of_the_configuration() -> None:
    """Topograph shortens values under whatever keys it was told to write, and under no others."""
    written, other = level("example.org/switch-0"), level("example.org/row")
    topology = Topology("own", (other, written))

    row, switch = shortened(topology, ("example.org/switch-",)).levels

    assert [label_value(one, one.name, "a" * 69) for one in (row, switch)] == ["a" * 69, "x65863cd5b882ce8"]
    assert shortened(topology, ()) is topology


@pytest.mark.parametrize(
    "name", ["fabric", "superpod", "leafgroup", "leafgroup-name", "speed.current", "speed.expected"]
)
def test_keys_that_were_renamed(name: str) -> None:
    """Whichever name is asked for, both are found, the newer one first."""
    both = (f"backend.coreweave.cloud/{name}", f"ib.coreweave.cloud/{name}")

    assert (equivalent(both[0]), equivalent(both[1])) == (both, both)


@pytest.mark.parametrize(
    "key",
    [
        *("node.coreweave.cloud/rack", "kubernetes.io/hostname", "fabric", "backend.coreweave.cloud/flavor"),
        *("ib.coreweave.cloud/neighbors.leaf", "notbackend.coreweave.cloud/fabric"),
    ],
)
def test_keys_of_one_name(key: str) -> None:
    """Any other key is only itself."""
    assert equivalent(key) == (key,)


def test_a_level_of_an_older_key() -> None:
    """A level goes by the key that it was made of, and counts under both."""
    keys = ("backend.coreweave.cloud/fabric", "ib.coreweave.cloud/fabric")
    made = level("ib.coreweave.cloud/fabric", "net")

    assert made == Level("ib.coreweave.cloud/fabric", keys, "net")
    assert (made.short, level("rack").short) == ("fabric", "rack")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        *(pytest.param(value, "", id=value[:9]) for value in ("a", "A-b_c.9", "0", "a" * 63)),
        pytest.param("a" * 64, "has 64 characters, and the value of a label has 63 at most", id="64-characters"),
        *(
            pytest.param(
                value, "is no value of a label: letters, digits, and within them - _ . are allowed", id=repr(value)
            )
            for value in ("", "-a", "a-", "a b", "ä", "a\n", "a/b")
        ),
    ],
)
def test_values_of_labels(value: str, problem: str) -> None:
    """What no label can have is told apart, with the reason."""
    assert value_problem(value) == problem


_MEASURE = "tells how a Node is connected, not where it is, and is no level"


@pytest.mark.parametrize(
    ("key", "why"),
    [
        pytest.param("backend.coreweave.cloud/speed.current", _MEASURE, id="speed"),
        pytest.param("ib.coreweave.cloud/speed.expected", _MEASURE, id="older-speed"),
        pytest.param("backend.coreweave.cloud/neighbors.leaf", _MEASURE, id="neighbours"),
        pytest.param("ib.coreweave.cloud/ports.up", _MEASURE, id="ports"),
        pytest.param(
            "backend.coreweave.cloud/flavor",
            "tells the kind of the network, which a topology may require, and is no level",
            id="flavor",
        ),
        pytest.param("topology.k8s.aws/capacity-block-id", "is a reservation, and is no level", id="reservation"),
        pytest.param("backend.coreweave.cloud/fabric", "", id="level"),
        pytest.param("example.org/speed.current", "", id="somebody-elses"),
    ],
)
def test_labels_that_are_no_level(key: str, why: str) -> None:
    """Known labels that somebody may take for a level are told by what they say instead."""
    assert no_level(key) == why
