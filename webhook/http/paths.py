"""The paths that a replica answers, which it announces on its health port."""

from __future__ import annotations

from typing import Final

PATHS: Final = "/paths"
"""The path on the health port at which a replica lists them, as a JSON array."""

ANSWERED: Final = frozenset(
    {
        "/mutate",
        "/mutate/daemonsets",
        "/mutate/pods",
        "/mutate/policies",
        "/mutate/topology",
        "/validate",
        "/validate/daemonsets",
        "/validate/labels",
        "/validate/pods",
        "/validate/policies",
        "/validate/policies-ignore",
        "/validate/topologies",
        "/validate/topology",
    }
)
"""The paths of releases that do not announce any."""
