"""How an API server of a release reads an expression.

Sources: k8s.io/apiserver's pkg/cel/environment/base.go and environment.go. New expressions may use what the previous
minor release knows too, so that an API server of that release can still read them after a rollback; stored ones may use
all that the release knows. Grammar, overloads of the language itself, values, errors and costs are those of the
release's own program for both.
"""

from __future__ import annotations

from dataclasses import dataclass

from policies.cel.changes import Feature
from policies.kubernetes.release import NEWEST, Release


@dataclass(frozen=True, slots=True)
class Dialect:
    """An API server's reading of expressions.

    release: the API server's. stored: whether it reads them from its store, and not from a request that writes them.

    >>> Dialect(NEWEST, stored=True).knows(NEWEST), Dialect(NEWEST).knows(NEWEST)
    (True, False)
    """

    release: Release = NEWEST
    stored: bool = False

    def knows(self, since: Release | None) -> bool:
        """Whether expressions may use a library that came with a release; None: one that all followed releases have."""
        return since is None or since < self.release or (self.stored and since == self.release)

    def has(self, feature: Feature) -> bool:
        """Whether the language has a feature, which new expressions may use at once."""
        return self.release >= feature.since


NEW = Dialect()
"""What the newest release takes: for policies that are loaded, linted, checked and tested."""
STORED = Dialect(stored=True)
"""What the newest release evaluates: for expressions asked about alone, and for policies read from a cluster."""
