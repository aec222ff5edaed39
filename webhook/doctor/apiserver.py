"""Whether the API server has what the service relies on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from webhook.configuration.settings import Settings
from webhook.doctor.finding import Diagnosis, Level, Read, Unread, unseen
from webhook.registration.rights import ADMISSION

CHECK: Final = "API server"
# The versions of device claims whose shapes the service reads, as in webhook/cluster/watches/devices.py.
DEVICES: Final = "resource.k8s.io"
DEVICE_VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")


class _Feature(NamedTuple):
    """A part of the API server. since: the version that has it for good. without: what happens before that."""

    name: str
    since: tuple[int, int]
    level: Level
    without: str
    remedy: str


_CONDITIONS: Final = _Feature(
    "match conditions of webhooks",
    (1, 30),
    "problem",
    "entries may be asked about every write, and refuse all of them in an outage",
    "upgrade the cluster",
)
_NATIVE: Final = _Feature(
    "ValidatingAdmissionPolicy v1",
    (1, 30),
    "warning",
    "its own policies cannot be followed",
    "upgrade the cluster, or set policies.native to false",
)


def check(version: Read[str], groups: Read[Mapping[str, tuple[str, ...]]], settings: Settings) -> Iterator[Diagnosis]:
    """Its version against what is used of it. groups: those that it serves, with their versions."""
    if isinstance(version, Unread):
        yield unseen(CHECK, "its version", version)
    else:
        yield from _features(version, settings)
    if isinstance(groups, Unread):
        yield unseen(CHECK, "the APIs that it serves", groups)
        return
    if "v1" not in groups.get(ADMISSION, ()):
        found = f"it serves {ADMISSION} in {', '.join(groups.get(ADMISSION, ())) or 'no version'}, not in v1"
        yield Diagnosis(CHECK, "problem", ADMISSION, found, "upgrade the cluster, or switch the API on")
    served = groups.get(DEVICES, ())
    if served and not set(served) & set(DEVICE_VERSIONS):
        found = f"it serves {', '.join(served)}, none of {', '.join(DEVICE_VERSIONS)}: claims make no Pod a GPU Pod"
        yield Diagnosis(CHECK, "warning", DEVICES, found, "upgrade the cluster")


def _features(version: str, settings: Settings) -> Iterator[Diagnosis]:
    found = _VERSION.match(version)
    if found is None:
        yield Diagnosis(CHECK, "unknown", "its version", f"{version!r} is no version of Kubernetes")
        return
    number = int(found[1]), int(found[2])
    used = [_CONDITIONS, *([_NATIVE] if settings.policies.native else [])]
    missing = [feature for feature in used if number < feature.since]
    for feature in missing:
        said = f"{feature.name} came in {'.'.join(map(str, feature.since))}, and it is {version}: {feature.without}"
        yield Diagnosis(CHECK, feature.level, "its version", said, feature.remedy)
    if not missing:
        yield Diagnosis(CHECK, "ok", "its version", f"{version} has {' and '.join(feature.name for feature in used)}")
