"""The releases of Kubernetes whose API server this project follows, and what differs between them.

What differs is a field of `Release` here, or a row of a table that names releases; no other module asks for a version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Release:
    """A minor release of Kubernetes. Releases are ordered by age. What a row does not say is as in the newest.

    proven: the version whose API server and library the recorded answers are of; a beta until the release is final.
    reserves_static_names: whether names of policies that end in `.static.k8s.io` are refused, and not only warned of
    (the gate ManifestBasedAdmissionControlConfig). validates_declaratively: whether what a binding lacks is said after
    all else and without further words, and what is wrong twice is said once (the gate DeclarativeValidationBeta).
    names_authorizers: whether the reason of a check that nobody allows begins with the authorizer that gives it.
    orders_static_webhooks: whether the configuration of the plugin says where webhooks in files come among the others.
    converts_objects: whether objects are converted to maps for conditions and validations, and not only for mutations.
    """

    major: int
    minor: int
    proven: str
    reserves_static_names: bool = True
    validates_declaratively: bool = True
    names_authorizers: bool = True
    orders_static_webhooks: bool = True
    converts_objects: bool = False

    @property
    def name(self) -> str:
        """Such as `1.37`."""
        return f"{self.major}.{self.minor}"

    @property
    def known_as(self) -> str:
        """Such as `1.37`, or `1.38.0-beta.0` for one of which only a beta is known."""
        return self.name if self.is_final else self.proven

    @property
    def is_final(self) -> bool:
        """Whether Kubernetes has released it, so that no recorded answer may still change with it."""
        return "-" not in self.proven


RELEASES = (
    Release(1, 36, "1.36.3", reserves_static_names=False, validates_declaratively=False, names_authorizers=False,
            orders_static_webhooks=False, converts_objects=True),
    Release(1, 37, "1.37.2", orders_static_webhooks=False),
    Release(1, 38, "1.38.0-beta.0"),
)  # fmt: skip
"""The oldest first."""
_, V1_37, V1_38 = RELEASES
FINAL = tuple(release for release in RELEASES if release.is_final)
"""Those whose API server answered the recorded questions. Of a beta only the library was asked."""
NEWEST = FINAL[-1]
"""By this one is judged what names no release and no cluster. Its types and field rules serve a beta, too."""
_VERSION = re.compile(r"v?(\d+)\.(\d+)").match


def named(name: str) -> Release:
    """Return the release with a name such as `1.37`. Raises ValueError, with the names that there are."""
    for release in RELEASES:
        if release.name == name:
            return release
    raise ValueError(f"{name!r} is no release; there are {', '.join(release.name for release in RELEASES)}")


def nearest(version: str) -> Release:
    """Return the release of a version such as `v1.36.3-gke.1`, or the nearest one that is followed.

    Raises ValueError if the text is no version.
    """
    match = _VERSION(version)
    if match is None:
        raise ValueError(f"{version!r} is no version of Kubernetes")
    asked = int(match[1]), int(match[2])
    return next((release for release in reversed(RELEASES) if (release.major, release.minor) <= asked), RELEASES[0])


def is_proven(version: str) -> bool:
    """Whether the release of a version such as `v1.36.3-gke.1` is followed itself, not only one near it or a beta."""
    match = _VERSION(version)
    return match is not None and (int(match[1]), int(match[2])) in {(r.major, r.minor) for r in FINAL}
