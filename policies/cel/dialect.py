"""How an API server of a release reads an expression.

Sources: k8s.io/apiserver's pkg/cel/environment/base.go and environment.go. New expressions may use what the previous
minor release knows too, so that an API server of that release can still read them after a rollback; stored ones may use
all that the release knows. Grammar, overloads of the language itself, values, errors and costs are those of the
release's own program for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from policies.cel.function import Library
from policies.kubernetes.release import NEWEST, Release, named

_V1_37 = named("1.37")


class Feature(Enum):
    """What the language has since a release, in a sentence each."""

    QUOTED_FIELDS = _V1_37, "Fields may be written in backticks: labels.`app.kubernetes.io/name`."
    SHADOWING = _V1_37, "A macro's variable hides longer names that begin with it, and `.x` always means the outer x."
    STRICT_ALTERNATIVES = _V1_37, "`or` and `orValue` fail on what is no optional, rather than give it back."
    WHOLE_OPTIONALS = _V1_37, "A variable that holds an optional keeps its content as it is, also an optional."
    WRAPPED_FIELDS = _V1_37, "Messages name the class of a wrapped value where JSON itself was named."

    @property
    def since(self) -> Release:
        """The first release that has it."""
        return self.value[0]

    @property
    def what(self) -> str:
        """What it is."""
        return self.value[1]


@dataclass(frozen=True, slots=True)
class Dialect:
    """An API server's reading of expressions.

    release: the API server's. stored: whether it reads them from its store, and not from a request that writes them.

    >>> from policies.cel.function import Library
    >>> library = Library(name="example", since=NEWEST)
    >>> Dialect(NEWEST, stored=True).knows(library), Dialect(NEWEST).knows(library)
    (True, False)
    """

    release: Release = NEWEST
    stored: bool = False

    def knows(self, library: Library) -> bool:
        """Whether expressions may use a library."""
        added = library.since is None or self._reaches(library.since)
        return added and not (library.until is not None and self._reaches(library.until))

    def _reaches(self, release: Release) -> bool:
        return release < self.release or (self.stored and release == self.release)

    def has(self, feature: Feature) -> bool:
        """Whether the language has a feature, which new expressions may use at once."""
        return self.release >= feature.since


NEW = Dialect()
"""What the newest release takes: for policies that are loaded, linted, checked and tested."""
STORED = Dialect(stored=True)
"""What the newest release evaluates: for expressions asked about alone, and for policies read from a cluster."""
