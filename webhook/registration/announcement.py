"""Which entries may be registered while replicas of several versions run. Pure.

An entry that fails closed needs replicas that know its path: another replica answers 503, and the write is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from policies.engine.request import JsonObject
from webhook.registration.configurations import is_own

_OWN_PATH = re.compile(r"/(?:mutate|validate)(?:/[^/]+)*\Z")


class Announcement(Struct, frozen=True):
    """What a replica's Pod says. ready: whether calls reach it. paths: those that it answers; None until it said so."""

    name: str
    ready: bool
    paths: frozenset[str] | None


def path_of(entry: JsonObject) -> str:
    """The path that the API server calls for an entry, without that of a base URL."""
    client: Any = entry["clientConfig"]
    service = client.get("service")
    path = str(service.get("path") or "/") if service else urlsplit(str(client.get("url", ""))).path
    match = _OWN_PATH.search(path)
    return match[0] if match else path


def closed_paths(configurations: Iterable[JsonObject]) -> list[str]:
    """The paths of the service's entries that fail closed."""
    entries = (entry for configuration in configurations for entry in configuration.get("webhooks") or ())
    closed = (entry for entry in entries if is_own(entry) and entry.get("failurePolicy", "Fail") == "Fail")
    return list(dict.fromkeys(map(path_of, closed)))


def announced(
    desired: Mapping[str, JsonObject], observed: Mapping[str, JsonObject], replicas: Sequence[Announcement]
) -> tuple[dict[str, JsonObject], list[str]]:
    """The desired configurations without what replicas do not know yet, and a text for each entry that is left out.

    desired, observed: by kind. An entry that fails closed is left out while any replica is known not to answer its
    path, ready or not, because it will be ready soon or still has connections. The other parts of its group are left
    out with it. One that is not registered yet also waits until every ready replica has said what it answers, and there
    is one. A replica that does not answer, as in a partition of the network, takes away nothing that is registered.
    """
    present = {(kind, path) for kind, configuration in observed.items() for path in closed_paths([configuration])}
    remaining, withheld = {}, []
    for kind, configuration in desired.items():
        closed = [entry for entry in configuration["webhooks"] if entry["failurePolicy"] == "Fail"]
        obstacles: dict[str, list[str]] = {}
        for entry in closed:
            path = path_of(entry)
            if names := _obstacles(path, replicas, registered=(kind, path) in present):
                obstacles[path] = names
                withheld.append(
                    f"{entry['name']} fails closed at {path}, and is not registered before all replicas answer there: "
                    f"{', '.join(names)}"
                )
        webhooks = [entry for entry in configuration["webhooks"] if path_of(entry) not in obstacles]
        if webhooks:
            remaining[kind] = {**configuration, "webhooks": webhooks}
    return remaining, withheld


def _obstacles(path: str, replicas: Sequence[Announcement], *, registered: bool) -> list[str]:
    """The replicas because of which a path that fails closed must not be registered; `no replica` if there is none."""
    lacking = [replica.name for replica in replicas if replica.paths is not None and path not in replica.paths]
    if lacking or registered:
        return lacking
    ready = [replica for replica in replicas if replica.ready]
    return [replica.name for replica in ready if replica.paths is None] if ready else ["no replica is ready"]
