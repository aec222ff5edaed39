"""The built-in resources of an API server: their kinds, scopes and subresources.

The table is `resources.json` beside this module, which tests/cluster/servedresources.py writes from the API server's
discovery documents. It does not contain APIs that are off by default.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

from policies.engine.request import GroupVersionKind

Scope = Literal["Namespaced", "Cluster"]


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A resource with its name in rules: `deployments`, or `deployments/scale` with the kind `autoscaling/v1 Scale`."""

    group: str
    version: str
    name: str
    kind: GroupVersionKind
    scope: Scope


@cache
def built_in() -> tuple[ApiResource, ...]:
    """All built-in resources, sorted by group, version and name."""
    text = resources.files("policies.admissionpolicy").joinpath("resources.json").read_text(encoding="utf-8")
    return tuple(
        _resource(api_version, scope, name, kind)
        for api_version, scopes in json.loads(text).items()
        for scope, names in scopes.items()
        for name, kind in names.items()
    )


def _resource(api_version: str, scope: Scope, name: str, kind: str) -> ApiResource:
    group, _, version = api_version.rpartition("/")
    *elsewhere, plain = kind.rsplit("/", 2)
    kind_group, kind_version = elsewhere or (group, version)
    return ApiResource(group, version, name, GroupVersionKind(kind_group, kind_version, plain), scope)
