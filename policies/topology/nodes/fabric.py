"""What is wrong with the network behind Nodes, by what the labels of the Nodes say of it.

Source: CoreWeave's page "InfiniBand and RoCE labels". What no Node of a cluster carries is not missed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

from msgspec import Struct

from policies.engine.facts import Node
from policies.vocabulary import BACKEND, FLAVOR, IB

Kind = Literal["slow", "miswired", "split", "incomplete", "mixed"]
Labels = Mapping[str, str]

MEANINGS: Final[Mapping[Kind, str]] = {
    "slow": "the link is slower than it should be",
    "miswired": "a port is connected to another switch port than it should be",
    "split": "the Nodes of one leafgroup are in several superpods",
    "incomplete": "a label is missing that other Nodes have",
    "mixed": "backend and ib labels do not say the same",
}
"""What each kind of flaw means."""

_PREFIXES = (BACKEND, IB)
_LEVELS = ("fabric", "superpod", "leafgroup")
_SPEEDS = ("speed.current", "speed.expected")
_NEIGHBOR = re.compile(r"neighbors\.(expected|current)\.(.+)\.(device|port-id|port-name)\Z")
_SPEED = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([kmgt]?)", re.IGNORECASE)
_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_PORTS_SHOWN = 2


class Flaw(Struct, frozen=True, order=True):
    """One thing that is wrong with a Node's place in the network. text: what was found, and what there should be."""

    kind: Kind
    text: str


def flaws(nodes: Iterable[Node]) -> Mapping[str, tuple[Flaw, ...]]:
    """The flaws of Nodes by name; Nodes without one are not in it."""
    connected = [(node.name, labels) for node in nodes if (labels := _of_network(node.labels))]
    carried = _carried(labels for _, labels in connected)
    superpods = _superpods(labels for _, labels in connected)
    found = (
        (name, (*_own(labels, carried[labels.get(FLAVOR)]), *_split(labels, superpods))) for name, labels in connected
    )
    return {name: of_node for name, of_node in found if of_node}


def _of_network(labels: Labels) -> Labels:
    """The labels about the network."""
    return {key: value for key, value in labels.items() if key.startswith(_PREFIXES)}


def _carried(connected: Iterable[Labels]) -> Mapping[str | None, set[str]]:
    """The names that Nodes of each kind of network carry; under None those of all, for Nodes that do not say."""
    carried: dict[str | None, set[str]] = {None: set()}
    for labels in connected:
        flavor = labels.get(FLAVOR)
        names = {name for name in (*_LEVELS, *_SPEEDS) if _value(labels, name)}
        for kind in (None, flavor):
            carried.setdefault(kind, set()).update(names, ("flavor",) if flavor else ())
    return carried


def _own(labels: Labels, carried: set[str]) -> Iterator[Flaw]:
    """The flaws that a Node's own labels show. carried: the names that any such Node has."""
    yield from _slow(labels)
    yield from _miswired(labels)
    yield from _incomplete(labels, carried)
    yield from _mixed(labels)


def _slow(labels: Labels) -> Iterator[Flaw]:
    current, expected = (_value(labels, name) for name in _SPEEDS)
    if current and expected and current != expected:
        has, should = _speed(current), _speed(expected)
        if has is None or should is None or has < should:
            yield Flaw("slow", f"speed is {current}, expected {expected}")


def _speed(text: str) -> float | None:
    """A speed as a number, such as 4e11 for 400G; None for another form."""
    match = _SPEED.match(text)
    return None if match is None else float(match[1]) * _FACTORS[match[2].lower()]


def _miswired(labels: Labels) -> Iterator[Flaw]:
    """The flaw of the ports that have another neighbor than they should. A port's name is not always known."""
    ends: dict[tuple[str, str], dict[str, str]] = {}
    for key, value in labels.items():
        if match := _NEIGHBOR.match(key.partition("/")[2]):
            side, interface, what = match.groups()
            ends.setdefault((interface, what), {}).setdefault(side, value)
    wrong = [
        f"{interface} has {what} {end.get('current', 'none')}, expected {end['expected']}"
        for (interface, what), end in sorted(ends.items())
        if "expected" in end and end.get("current", end["expected"] if what == "port-name" else "") != end["expected"]
    ]
    if wrong:
        more = f" and {len(wrong) - _PORTS_SHOWN} more" if len(wrong) > _PORTS_SHOWN else ""
        yield Flaw("miswired", f"{'; '.join(wrong[:_PORTS_SHOWN])}{more}")


def _incomplete(labels: Labels, carried: set[str]) -> Iterator[Flaw]:
    """The flaw of labels that are half set."""
    has = {name for name in (*_LEVELS, *_SPEEDS) if _value(labels, name)}
    is_placed = FLAVOR in labels or not has.isdisjoint(_LEVELS)
    missing = [name for name in _LEVELS if is_placed and name in carried and name not in has]
    if "flavor" in carried and FLAVOR not in labels and any(BACKEND + name in labels for name in _LEVELS):
        missing.append("flavor")
    if len(has.intersection(_SPEEDS)) == 1:
        missing += [name for name in _SPEEDS if name in carried and name not in has]
    if missing:
        yield Flaw("incomplete", f"no {', no '.join(missing)}")


def _mixed(labels: Labels) -> Iterator[Flaw]:
    """The flaw of levels with two values, or of a Node whose levels no one prefix names."""
    both = [(name, labels.get(BACKEND + name), labels.get(IB + name)) for name in _LEVELS]
    differing = [f"{name} is {new} by backend and {old} by ib" for name, new, old in both if new and old and new != old]
    new_only = [name for name, new, old in both if new and not old]
    old_only = [name for name, new, old in both if old and not new]
    if differing:
        yield Flaw("mixed", "; ".join(differing))
    if new_only and old_only:
        yield Flaw("mixed", f"{', '.join(new_only)} by backend alone, {', '.join(old_only)} by ib alone")


def _superpods(connected: Iterable[Labels]) -> Mapping[tuple[str, ...], set[str]]:
    """The superpods that each leafgroup is in. Numbers of leafgroups repeat across fabrics.

    Where most numbers of a fabric are in several superpods, each superpod counts its own: then only names tell.
    """
    superpods: dict[tuple[str, ...], set[str]] = {}
    for labels in connected:
        superpod = _value(labels, "superpod")
        if superpod and _value(labels, "leafgroup"):
            superpods.setdefault(_leafgroup(labels), set()).add(superpod)
    split: dict[str, list[bool]] = {}
    for (fabric, _, name), there in superpods.items():
        if not name:
            split.setdefault(fabric, []).append(len(there) > 1)
    numbered = {fabric for fabric, several in split.items() if 2 * sum(several) < len(several)}
    return {group: there for group, there in superpods.items() if group[2] or group[0] in numbered}


def _split(labels: Labels, superpods: Mapping[tuple[str, ...], set[str]]) -> Iterator[Flaw]:
    there = superpods.get(_leafgroup(labels), ())
    if len(there) > 1:
        fabric = _value(labels, "fabric")
        group = _value(labels, "leafgroup") + (f" of fabric {fabric}" if fabric else "")
        yield Flaw("split", f"leafgroup {group} is in superpods {' and '.join(sorted(there))}")


def _leafgroup(labels: Labels) -> tuple[str, ...]:
    return tuple(_value(labels, name) for name in ("fabric", "leafgroup", "leafgroup-name"))


def _value(labels: Labels, name: str) -> str:
    """The value of a label under either key; empty without one."""
    return labels.get(BACKEND + name) or labels.get(IB + name) or ""
