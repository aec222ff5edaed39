"""What arrives at an admission webhook when a manifest is written again, by each of the ways to do so.

`kubectl apply` merges three objects (lists of terms are atomic), server-side apply replaces the fields that its user
owns, `kubectl replace` sends the manifest as it is, and a controller or `kubectl edit` writes what it has read.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from support.builders import Json

_ATOMIC = frozenset({"requiredDuringSchedulingIgnoredDuringExecution"})


def client_side_apply(live: Json, manifest: Json, last: Json) -> Json:
    """What is in `last` and not in the manifest goes, what is in the manifest comes, the rest of the object stays."""
    result = deepcopy(live)
    for key in last.keys() - manifest.keys():
        result.pop(key, None)
    for key, value in manifest.items():
        found = result.get(key)
        if isinstance(value, dict) and isinstance(found, dict):
            before = last.get(key)
            result[key] = client_side_apply(found, value, before if isinstance(before, dict) else {})
        else:
            result[key] = deepcopy(value)
    return result


def server_side_apply(live: Json, manifest: Json, last: Json) -> Json:
    """The fields of the manifest; those that it had before go; others stay. A node selector is one field.

    Maps that are empty once their fields are gone go with them.
    """
    result = _without(deepcopy(live), last, manifest)
    return _merged(result, manifest)


def _is_field(key: str, value: Any) -> bool:
    return key in _ATOMIC or not isinstance(value, dict) or not value


def _without(live: Json, last: Json, manifest: Json) -> Json:
    for key, value in last.items():
        if key not in live:
            continue
        kept = manifest.get(key)
        if _is_field(key, value):
            if key not in manifest:
                del live[key]
            continue
        live[key] = _without(live[key], value, kept if isinstance(kept, dict) else {})
        if not live[key] and key not in manifest:
            del live[key]
    return live


def _merged(live: Json, manifest: Json) -> Json:
    for key, value in manifest.items():
        found = live.get(key)
        if _is_field(key, value) or not isinstance(found, dict):
            live[key] = deepcopy(value) if not (value == {} and isinstance(found, dict)) else found
        else:
            live[key] = _merged(found, value)
    return live


def replace(live: Json, manifest: Json, last: Json) -> Json:  # noqa: ARG001
    """The manifest."""
    return deepcopy(manifest)
