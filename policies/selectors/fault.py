"""What is wrong with a requirement or a topology key, by what the key means and by what Nodes carry."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from policies import vocabulary
from policies.engine.facts import Node
from policies.engine.match import SelectorRequirement, Term
from policies.topology.topology import natural
from policies.vocabulary import (
    ALL,
    CLIQUE,
    CONTROL_PLANE,
    FLAVOR,
    HOSTNAME,
    IB,
    IB_FABRIC,
    INSTANCE_TYPE,
    NO_WORKLOADS,
    OLD_TYPE,
    PRODUCTION,
    REGION,
    RESERVED,
    STATE,
    TIERS,
    ZONE,
    Key,
)  # fmt: skip

# Every Node is looked at for each key: some milliseconds for 10,000 Nodes and so many keys. So a review has only so
# many counted, and what was counted is kept for later ones.
MOST_KEYS, MOST_KEPT = 32, 256
_EVERYWHERE = frozenset({REGION, ZONE, HOSTNAME})


Effect = Literal["together", "apart", "spread"]


class Grouping(Struct, frozen=True):
    """A topology key: Pods on Nodes with the same value of it are grouped. path: the steps within the Pod's spec.

    effect: whether Pods are kept together or apart, or spread. is_required: whether Pods wait where it cannot be met.
    is_own: whether the Pods that count are those of the same template.
    """

    path: tuple[str, ...]
    key: str
    effect: Effect
    is_required: bool
    is_own: bool = False


class Census:
    """The labels of Nodes, and of those that an autoscaler would add. Without Nodes, nothing is known.

    One serves reviews in turn, as long as the Nodes are the same; a review begins with `renewed`.
    """

    def __init__(self, nodes: Sequence[Node], coming: Sequence[Mapping[str, str]] = ()) -> None:
        self.nodes = nodes
        self._coming = coming
        self._counts: dict[str, Counter[str]] = {}
        self._allowed: dict[tuple[Term, Sequence[Term]], Census] = {}
        self._new = 0

    def renewed(self, nodes: Sequence[Node], coming: Sequence[Mapping[str, str]]) -> Census:
        """The census for another review: this one with all that it has counted, unless the Nodes are others."""
        if nodes is not self.nodes or len(self._counts) > MOST_KEPT or len(self._allowed) > MOST_KEPT:
            return Census(nodes, coming)
        self._coming, self._new = coming, 0
        return self

    def knows(self, key: str) -> bool:
        """Whether anything can be said about a key."""
        return bool(self.nodes) and (key in self._counts or self._new < MOST_KEYS)

    def values(self, key: str) -> Counter[str]:
        """How many Nodes carry which value of a key."""
        counts = self._counts.get(key)
        if counts is None:
            self._new += 1
            counts = self._counts[key] = Counter(node.labels[key] for node in self.nodes if key in node.labels)
        return counts

    def allowed(self, selector: Term, terms: Sequence[Term]) -> Census:
        """The census of the Nodes that meet a node selector and one of the terms, if there are any."""
        asked = selector, terms
        census = self._allowed.get(asked)
        if census is None:
            nodes = list(self.nodes)
            for requirement in selector:
                nodes = [node for node in nodes if node.labels.get(requirement.key) == requirement.values[0]]
            nodes = [n for n in nodes if not terms or any(term and meets_all(term, n.labels) for term in terms)]
            census = self._allowed[asked] = Census(nodes)
        return census

    def carries(self, key: str) -> bool:
        """Whether a Node carries a key, or one to come would."""
        return bool(self.values(key)) or any(key in labels for labels in self._coming)

    def meets(self, requirement: SelectorRequirement) -> bool:
        """Whether a Node meets a requirement by its label, or one to come might: of their labels, not all are known."""
        key = requirement.key
        if any(requirement.matches(labels) for labels in self._coming if key in labels):
            return True
        return any(requirement.matches({key: value}) for value in self.values(key)) or (
            self.values(key).total() < len(self.nodes) and requirement.matches({})
        )

    def comes(self, requirement: SelectorRequirement) -> bool:
        """Whether a Node to come may meet a requirement that it is told to meet."""
        return any(requirement.matches(labels) for labels in self._coming if requirement.key in labels)

    @property
    def places(self) -> list[str]:
        """The known keys of places that Nodes carry, but for those that all clouds have."""
        carried = {key for node in self.nodes for key in node.labels} - _EVERYWHERE
        return sorted(key for key in carried if (known := vocabulary.key(key)) is not None and known.sort == "place")


def listed(texts: Iterable[str], shown: int = 3) -> str:
    """The first texts in natural order, and how many more there are: `1, 2, 3 and 4 more`."""
    ordered = sorted(texts, key=natural)
    if len(ordered) > shown + 1:
        return f"{', '.join(ordered[:shown])} and {len(ordered) - shown} more"
    *others, last = ordered
    return f"{', '.join(others)} and {last}" if others else last


def meets_all(requirements: Iterable[SelectorRequirement], labels: Mapping[str, str]) -> bool:
    """Whether labels meet all requirements."""
    return all(requirement.matches(labels) for requirement in requirements)


_POSITIVE = frozenset({"In", "Exists", "Gt", "Lt"})
_OLDER_TYPE = re.compile(r"[A-Z0-9]+(_[A-Za-z0-9]+)+(\.[A-Za-z0-9]+)*")
_INSTANCE = "gd-8xh100ib-i128"
# Prefixes under which others have labels of their own, or that appear on a Node only after it has come.
_SHARED = ("nvidia.com", "kubernetes.io", "node.kubernetes.io", "cloud.google.com", "beta.kubernetes.io")


class Fault(Struct, frozen=True):
    """What is wrong with a requirement. shown: what was found. problem: continues a sentence about it.

    remedy: what to do.
    """

    shown: str
    problem: str
    remedy: str


class Judge(Struct, frozen=True):
    """What is known of Nodes, and whose of them may be selected. told: keys whose values are judged elsewhere."""

    census: Census
    organizations: tuple[str, ...] = ()
    told: frozenset[str] = frozenset()

    def is_told(self, requirement: SelectorRequirement) -> bool:
        """Whether somebody else tells of a fault. Of an organization that only the configuration knows, nobody does."""
        is_plain = all(value in (CONTROL_PLANE, *NO_WORKLOADS) for value in requirement.values)
        return requirement.key in self.told and (requirement.key != RESERVED or is_plain)

    def by_meaning(self, requirement: SelectorRequirement, term: Term) -> Fault | None:
        """The fault that is one on any Nodes. term: all that is required together."""
        census = self.census
        fault = misspelt(requirement.key, census) or _of_flavor(requirement, term)
        if fault or requirement.operator not in ("In", "NotIn") or not requirement.values:
            return fault
        if requirement.operator == "In":
            fault = _of_lifecycle(requirement, self.organizations) or _of_type(requirement, census)
            fault = fault or _of_measure(requirement, census)
        return fault or _of_form(requirement, census)


def by_nodes(requirement: SelectorRequirement, census: Census) -> Fault | None:
    """The fault that no Node meets a requirement; None without Nodes."""
    key = requirement.key
    if requirement.operator not in _POSITIVE or not census.knows(key) or census.meets(requirement):
        return None
    # A label of another key may come to Nodes later.
    if not (vocabulary.key(key) or (vocabulary.belongs(key) and key.partition("/")[0] not in _SHARED)):
        return None
    shown = called(requirement)
    if not census.carries(key):
        return Fault(shown, "is carried by no Node.", instead(key, census))
    twin = vocabulary.twin(key)
    if twin and census.meets(SelectorRequirement(twin, requirement.operator, requirement.values)):
        return Fault(shown, "is carried by no Node.", f"Write {twin}, which Nodes carry.")
    return Fault(shown, "is carried by no Node.", f"Nodes have {listed(census.values(key))}.")


def misspelt(key: str, census: Census) -> Fault | None:
    """The fault that a key is no label of Nodes, but nearly one; a key that a Node carries is right."""
    known = vocabulary.key(key)
    right = known.replaced if known is not None else vocabulary.near(key)
    if not right or (census.knows(key) and census.carries(key)) or (known is not None and not census.nodes):
        return None
    problem = "is an older name, which no Node carries." if known is not None else "is no label of Nodes."
    return Fault(key, problem, f"Write {right}.")


def older(key: str, census: Census) -> Fault | None:
    """The fault that a key is the older name of one that Nodes carry as well."""
    right = vocabulary.twin(key) if key.startswith(IB) else ""
    if not right or not census.knows(right) or not (census.carries(key) and census.carries(right)):
        return None
    same = census.values(key) == census.values(right)
    return Fault(key, "is the older name.", f"Write {right}{'' if same else f' with {FLAVOR}=infiniband'}.")


def instead(key: str, census: Census) -> str:
    """What to write in the place of a key that no Node carries."""
    if key == FLAVOR and census.carries(IB_FABRIC):
        return f"Write {IB_FABRIC} with the operator Exists."
    short, places = key.rpartition("/")[2], census.places
    tier = next((keys for keys in TIERS if key in keys), ())
    same = (place for place in places if place.rpartition("/")[2] == short)
    right = next((other for other in (vocabulary.twin(key), *tier, *same) if other and census.carries(other)), "")
    if right:
        return f"Write {right}, which Nodes carry."
    return f"Nodes carry {listed(places, 2)}." if places else "Leave it out: Nodes carry no label of a network."


def place(key: Key, census: Census) -> str:
    """The place to name instead of what a label tells, under the name that Nodes carry."""
    other = vocabulary.twin(key.instead)
    return f"Write {other if other and census.carries(other) and not census.carries(key.instead) else key.instead}."


def called(requirement: SelectorRequirement) -> str:
    """A requirement as people write it: `superpod=3`, `superpod in (3, 4)`, or the key alone."""
    if requirement.operator not in ("In", "NotIn"):
        return requirement.key
    several = ", ".join(requirement.values[:3]) + (", …" if len(requirement.values) > 3 else "")
    if requirement.operator == "In" and len(requirement.values) == 1:
        return f"{requirement.key}={several}"
    return f"{requirement.key} {'in' if requirement.operator == 'In' else 'not in'} ({several})"


def _of_flavor(requirement: SelectorRequirement, term: Term) -> Fault | None:
    """The fault that a label of InfiniBand is required of RoCE Nodes."""
    twin = vocabulary.twin(requirement.key) if requirement.key.startswith(IB) else ""
    if not (twin and requirement.operator in _POSITIVE):
        return None
    if not any(other.key == FLAVOR and other.operator == "In" and other.values == ("roce",) for other in term):
        return None
    return Fault(called(requirement), "is carried by no RoCE Node, and flavor=roce is required.", f"Write {twin}.")


def _of_lifecycle(requirement: SelectorRequirement, organizations: tuple[str, ...]) -> Fault | None:
    """The fault that Nodes take no workloads, or are reserved for others: whose is known where one's own id is."""
    values = requirement.values
    if requirement.key == STATE and all(value in NO_WORKLOADS for value in values):
        return Fault(called(requirement), "selects Nodes on which no workload lands.", f"Write {PRODUCTION}.")
    if requirement.key != RESERVED or any(value in organizations for value in values):
        return None
    if not organizations and not all(value in (CONTROL_PLANE, *NO_WORKLOADS) for value in values):
        return None
    right = " or ".join(organizations) or "the id of your organization"
    return Fault(called(requirement), "selects Nodes that are not yours.", f"Write {right}.")


def _of_type(requirement: SelectorRequirement, census: Census) -> Fault | None:
    """The fault that a type is written as it was called before there were Instance IDs."""
    is_type = requirement.key in (OLD_TYPE, INSTANCE_TYPE)
    if not is_type or not all(_OLDER_TYPE.fullmatch(value) for value in requirement.values):
        return None
    there = census.values(INSTANCE_TYPE) if census.knows(INSTANCE_TYPE) else {}
    right = listed(there) if there else _INSTANCE
    return Fault(
        called(requirement), "is an older value, which no Node has.", f"Write an Instance ID, such as {right}."
    )


def _of_measure(requirement: SelectorRequirement, census: Census) -> Fault | None:
    """The fault that a place is named by what it is connected to. Nodes may well be chosen by their speed."""
    known = vocabulary.key(requirement.key)
    if known is None or known.sort != "measure" or known.short.startswith("speed"):
        return None
    return Fault(called(requirement), f"{vocabulary.no_place(requirement.key)}.", place(known, census))


def _of_form(requirement: SelectorRequirement, census: Census) -> Fault | None:
    """The fault that a value is none that the label has; a value that a Node carries is right."""
    key, known = requirement.key, vocabulary.key(requirement.key)
    carried = census.values(key) if census.knows(key) else {}
    for value in requirement.values:
        if known is None or value in carried or census.comes(SelectorRequirement(key, "In", (value,))):
            continue
        right = next((other for other in (*known.form.choices, *carried) if other.lower() == value.lower()), value)
        if right != value:
            return Fault(called(requirement), "is written in another way.", f"Write {right}.")
        if not known.form.fits(value):
            return Fault(called(requirement), f"is not {known.form.called}.", _in_form(known, value, carried))
    return None


def _in_form(key: Key, value: str, carried: Iterable[str]) -> str:
    """What to write in the place of a value of another form."""
    there = sorted(carried)
    if key.name == CLIQUE and (halves := [clique for clique in there if clique.startswith(f"{value}.")]):
        return f"It is an NVL Domain: write {' or '.join(halves[:2])}{' …' if len(halves) > 2 else ''}."
    if key.form.choices:
        return f"Write {PRODUCTION}." if key.name == STATE else f"Write {' or '.join(key.form.choices)}."
    return f"Nodes have {listed(there)}." if there else "Copy the value of the Nodes' label."


SHORT = {key.short: key.name for key in reversed(ALL) if key.sort == "place" and not key.is_pattern}
"""Keys by their short names, which people write alone."""

_EFFECTS = {"together": "draws no Pods together", "apart": "keeps no Pods apart", "spread": "spreads no Pods"}


def by_key(grouping: Grouping, census: Census, allowed: Census | None) -> Fault | None:
    """The fault of a topology key. allowed: of the Nodes that the Pods may run on; None if that is not known."""
    key = grouping.key
    known = vocabulary.key(key)
    if fault := misspelt(key, census):
        return fault
    if known is not None and known.sort == "measure":
        return Fault(key, f"{vocabulary.no_place(key)}.", place(known, census))
    if not census.knows(key) or not (known is not None or vocabulary.belongs(key) or key in SHORT):
        return None
    if not census.carries(key):
        waits = grouping.is_required and grouping.effect != "apart"
        effect = "so the Pods wait for ever" if waits else f"so it {_EFFECTS[grouping.effect]}"
        right = SHORT.get(key, "")
        remedy = f"Write {right}." if right and census.carries(right) else instead(key, census)
        return Fault(key, f"is carried by no Node, {effect}.", remedy)
    fault = _by_allowed(grouping, allowed) if allowed is not None and allowed.nodes else None
    return fault or older(key, census)


def _by_allowed(grouping: Grouping, allowed: Census) -> Fault | None:
    """The fault of a key by the Nodes that the Pods may run on, of which there are some."""
    key = grouping.key
    domains, count = allowed.values(key), len(allowed.nodes)
    if not domains:
        which = f"carried by none of the {count} Nodes" if count > 1 else "not carried by the one Node"
        return Fault(key, f"is {which} that the Pods may run on.", instead(key, allowed))
    is_single = count > 1 and max(domains.values()) == 1
    if grouping.effect != "together" or not (grouping.is_required and grouping.is_own and is_single) or key == HOSTNAME:
        return None
    wider = {wide: allowed.values(wide) for wide in allowed.places}
    fitting = {
        wide: len(held) for wide, held in wider.items() if 0 < len(held) < len(domains) and max(held.values()) > 1
    }
    remedy = f"Write {max(fitting, key=fitting.__getitem__)}." if fitting else "Write a wider one."
    return Fault(key, "has one Node in each domain here, so all Pods have to fit on one Node.", remedy)
