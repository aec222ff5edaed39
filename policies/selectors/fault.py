"""What is wrong with a requirement by what its key means, and by what Nodes carry."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from policies.selectors.census import Census, listed
from policies.selectors.selection import Term
from policies.topology.gang.gang import Requirement
from policies.vocabulary import vocabulary
from policies.vocabulary.key import Key
from policies.vocabulary.keys import (
    CLIQUE,
    CONTROL_PLANE,
    FLAVOR,
    IB,
    IB_FABRIC,
    INSTANCE_TYPE,
    NO_WORKLOADS,
    OLD_TYPE,
    PRODUCTION,
    RESERVED,
    STATE,
    TIERS,
)  # fmt: skip

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

    def is_told(self, requirement: Requirement) -> bool:
        """Whether somebody else tells of a fault. Of an organization that only the configuration knows, nobody does."""
        is_plain = all(value in (CONTROL_PLANE, *NO_WORKLOADS) for value in requirement.values)
        return requirement.key in self.told and (requirement.key != RESERVED or is_plain)

    def by_meaning(self, requirement: Requirement, term: Term) -> Fault | None:
        """The fault that is one on any Nodes. term: all that is required together."""
        census = self.census
        fault = misspelt(requirement.key, census) or _of_flavor(requirement, term)
        if fault or requirement.operator not in ("In", "NotIn") or not requirement.values:
            return fault
        if requirement.operator == "In":
            fault = _of_lifecycle(requirement, self.organizations) or _of_type(requirement, census)
            fault = fault or _of_measure(requirement, census)
        return fault or _of_form(requirement, census)


def by_nodes(requirement: Requirement, census: Census) -> Fault | None:
    """The fault that no Node meets a requirement; None without Nodes."""
    key, shown = requirement.key, called(requirement)
    if (
        requirement.operator not in _POSITIVE
        or not _is_judged(key)
        or not census.knows(key)
        or census.meets(requirement)
    ):
        return None
    if not census.carries(key):
        return Fault(shown, "is carried by no Node.", instead(key, census))
    twin = vocabulary.twin(key)
    if twin and census.meets(Requirement(twin, requirement.operator, requirement.values)):
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


def called(requirement: Requirement) -> str:
    """A requirement as people write it: `superpod=3`, `superpod in (3, 4)`, or the key alone."""
    if requirement.operator not in ("In", "NotIn"):
        return requirement.key
    several = ", ".join(requirement.values[:3]) + (", …" if len(requirement.values) > 3 else "")
    if requirement.operator == "In" and len(requirement.values) == 1:
        return f"{requirement.key}={several}"
    return f"{requirement.key} {'in' if requirement.operator == 'In' else 'not in'} ({several})"


def _is_judged(key: str) -> bool:
    """Whether a label of this key would be on Nodes already: it is known, or belongs to a network's vocabulary."""
    return vocabulary.key(key) is not None or (vocabulary.belongs(key) and key.partition("/")[0] not in _SHARED)


def _of_flavor(requirement: Requirement, term: Term) -> Fault | None:
    """The fault that a label of InfiniBand is required of RoCE Nodes."""
    twin = vocabulary.twin(requirement.key)
    if not (twin and requirement.key.startswith(IB) and requirement.operator in _POSITIVE):
        return None
    if not any(other.key == FLAVOR and other.operator == "In" and other.values == ("roce",) for other in term):
        return None
    return Fault(called(requirement), "is carried by no RoCE Node, and flavor=roce is required.", f"Write {twin}.")


def _of_lifecycle(requirement: Requirement, organizations: tuple[str, ...]) -> Fault | None:
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


def _of_type(requirement: Requirement, census: Census) -> Fault | None:
    """The fault that a type is written as it was called before there were Instance IDs."""
    is_type = requirement.key in (OLD_TYPE, INSTANCE_TYPE)
    if not is_type or not all(_OLDER_TYPE.fullmatch(value) for value in requirement.values):
        return None
    there = census.values(INSTANCE_TYPE) if census.knows(INSTANCE_TYPE) else {}
    right = listed(there) if there else _INSTANCE
    return Fault(
        called(requirement), "is an older value, which no Node has.", f"Write an Instance ID, such as {right}."
    )


def _of_measure(requirement: Requirement, census: Census) -> Fault | None:
    """The fault that a place is named by what it is connected to. Nodes may well be chosen by their speed."""
    known = vocabulary.key(requirement.key)
    if known is None or known.sort != "measure" or known.short.startswith("speed"):
        return None
    return Fault(called(requirement), f"{vocabulary.no_place(requirement.key)}.", place(known, census))


def _of_form(requirement: Requirement, census: Census) -> Fault | None:
    """The fault that a value is none that the label has; a value that a Node carries is right."""
    key, known = requirement.key, vocabulary.key(requirement.key)
    carried = census.values(key) if census.knows(key) else {}
    for value in requirement.values:
        if known is None or value in carried or census.comes(Requirement(key, "In", (value,))):
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
