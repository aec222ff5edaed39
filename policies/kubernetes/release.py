"""The releases of Kubernetes whose API server this project follows, and what differs between them.

What differs is a field of `Release` here, or a row of a table that names releases; no other module asks for a version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Release:
    """A minor release of Kubernetes. Releases are ordered by age.

    proven: the version whose API server and library the recorded answers are of.
    reserves_static_names: whether names of policies that end in `.static.k8s.io` are refused, and not only warned of
    (the gate ManifestBasedAdmissionControlConfig). validates_declaratively: whether what a binding lacks is said after
    all else and without further words, and what is wrong twice is said once (the gate DeclarativeValidationBeta).
    names_authorizers: whether the reason of a check that nobody allows begins with the authorizer that gives it.
    converts_objects: whether objects are converted to maps for conditions and validations, and not only for mutations.
    """

    major: int
    minor: int
    proven: str
    reserves_static_names: bool
    validates_declaratively: bool
    names_authorizers: bool
    converts_objects: bool = False

    @property
    def name(self) -> str:
        """Such as `1.37`."""
        return f"{self.major}.{self.minor}"


RELEASES = (
    Release(1, 36, "1.36.3", reserves_static_names=False, validates_declaratively=False, names_authorizers=False,
            converts_objects=True),
    Release(1, 37, "1.37.2", reserves_static_names=True, validates_declaratively=True, names_authorizers=True),
)  # fmt: skip
"""The oldest first."""
NEWEST = RELEASES[-1]
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
    """Whether the release of a version such as `v1.36.3-gke.1` is followed itself, not only one near it."""
    match = _VERSION(version)
    return match is not None and (int(match[1]), int(match[2])) in {(r.major, r.minor) for r in RELEASES}
