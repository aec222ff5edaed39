"""Which labels the Nodes of a cluster carry, counted for the keys that somebody asks about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from policies.engine.facts import Node
from policies.selectors.selection import Term
from policies.topology.gang.gang import Requirement
from policies.topology.nodes.selection import meets
from policies.topology.topology import natural
from policies.vocabulary import vocabulary
from policies.vocabulary.keys import HOSTNAME, REGION, ZONE

# Every Node is looked at for each key: some milliseconds for 10,000 Nodes and so many keys. So a review has only so
# many counted, and what was counted is kept for later ones.
MOST_KEYS, MOST_KEPT = 32, 256
_EVERYWHERE = frozenset({REGION, ZONE, HOSTNAME})


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

    def meets(self, requirement: Requirement) -> bool:
        """Whether a Node meets a requirement by its label, or one to come might: of their labels, not all are known."""
        key = requirement.key
        if any(meets(requirement, labels) for labels in self._coming if key in labels):
            return True
        return any(meets(requirement, {key: value}) for value in self.values(key)) or (
            self.values(key).total() < len(self.nodes) and meets(requirement, {})
        )

    def comes(self, requirement: Requirement) -> bool:
        """Whether a Node to come may meet a requirement that it is told to meet."""
        return any(meets(requirement, labels) for labels in self._coming if requirement.key in labels)

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


def meets_all(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    """Whether labels meet all requirements."""
    return all(meets(requirement, labels) for requirement in requirements)
