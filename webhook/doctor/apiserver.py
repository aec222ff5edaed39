"""Checks whether the API server has the features that the service needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from policies.kubernetes.release import NEWEST, Release, is_proven, nearest
from webhook.configuration import rules
from webhook.configuration.settings import Settings
from webhook.doctor.diagnosis import Diagnosis, Level, Read, Unread, unseen
from webhook.registration.rights import ADMISSION

CHECK: Final = "API server"
# The versions of device claims that the service can read, as in webhook/cluster/watches/devices.py.
DEVICES: Final = "resource.k8s.io"
DEVICE_VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")


class _Feature(NamedTuple):
    """A feature of the API server. since: the first version with it. without: what happens in older versions."""

    name: str
    since: tuple[int, int]
    level: Level
    without: str
    remedy: str


_CONDITIONS: Final = _Feature(
    "webhook match conditions",
    (1, 30),
    "problem",
    "the API server may call the service for every write, and refuse every write during an outage",
    "upgrade the cluster",
)
_NATIVE: Final = _Feature(
    "ValidatingAdmissionPolicy v1",
    (1, 30),
    "warning",
    "the cluster's own policies cannot be used",
    "upgrade the cluster, or set policies.native to false",
)


def check(version: Read[str], groups: Read[Mapping[str, tuple[str, ...]]], settings: Settings) -> Iterator[Diagnosis]:
    """Whether its version and APIs suffice. groups: the served API groups, with their versions."""
    if isinstance(version, Unread):
        yield unseen(CHECK, "version", version)
    else:
        yield from _features(version, settings)
        yield from _release(version, settings)
    if isinstance(groups, Unread):
        yield unseen(CHECK, "served APIs", groups)
        return
    if "v1" not in groups.get(ADMISSION, ()):
        text = f"it serves {ADMISSION} in {', '.join(groups.get(ADMISSION, ())) or 'no version'}, not in v1"
        yield Diagnosis(CHECK, "problem", ADMISSION, text, "upgrade the cluster, or enable the API")
    served = groups.get(DEVICES, ())
    if served and not set(served) & set(DEVICE_VERSIONS):
        text = (
            f"it serves {', '.join(served)}, but none of {', '.join(DEVICE_VERSIONS)}: device claims do "
            "not make a Pod a GPU Pod"
        )
        yield Diagnosis(CHECK, "warning", DEVICES, text, "upgrade the cluster")


def judged_as(version: Read[str], settings: Settings) -> Release:
    """The release by whose rules the service judges policies beside an API server of a version."""
    if settings.policies.release is not None:
        return settings.policies.release
    return NEWEST if isinstance(version, Unread) or _VERSION.match(version) is None else nearest(version)


def _release(version: str, settings: Settings) -> Iterator[Diagnosis]:
    """The doubts whether policies are judged as the API server would judge them."""
    release = judged_as(version, settings)
    if not rules.uses_policies(settings) or _VERSION.match(version) is None:
        return
    if settings.policies.release is not None and nearest(version) != release:
        text = f"{version}, but policies are judged as by {release.name}"
        remedy = "leave policies.kubernetes empty, and the service follows the API server"
        yield Diagnosis(CHECK, "warning", "policies.kubernetes", text, remedy)
    elif not is_proven(version):
        text = f"{version} is not proven here: policies are judged as by {release.name}, the nearest release"
        remedy = "upgrade the service; until then try policies with kubectl apply --dry-run=server, too"
        yield Diagnosis(CHECK, "warning", "release", text, remedy)


def _features(version: str, settings: Settings) -> Iterator[Diagnosis]:
    match = _VERSION.match(version)
    if match is None:
        yield Diagnosis(CHECK, "unknown", "version", f"{version!r} is not a Kubernetes version")
        return
    number = int(match[1]), int(match[2])
    used = [_CONDITIONS, *([_NATIVE] if settings.policies.native else [])]
    missing = [feature for feature in used if number < feature.since]
    for feature in missing:
        text = f"{version} has no {feature.name} (since {'.'.join(map(str, feature.since))}): {feature.without}"
        yield Diagnosis(CHECK, feature.level, "version", text, feature.remedy)
    if not missing:
        yield Diagnosis(CHECK, "ok", "version", f"{version} has {' and '.join(feature.name for feature in used)}")
