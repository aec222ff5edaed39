"""The resources and schemas that policies can use: the built-in ones, and those of CRDs beside the policies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from policies.admissionpolicy import resource as resources
from policies.admissionpolicy import schema
from policies.admissionpolicy.builtin.table import OpenApi
from policies.admissionpolicy.resource import ApiResource
from policies.engine.request import GroupVersionKind


@dataclass(frozen=True, slots=True)
class ResourceCatalog:
    """resources: all known resources. custom: the schemas of custom resources."""

    resources: tuple[ApiResource, ...]
    custom: Mapping[GroupVersionKind, OpenApi]

    def kinds(self, group: str, version: str, resource: str) -> tuple[GroupVersionKind, ...]:
        """The kinds of a resource, whose name may be singular. As in a RESTMapper, an empty group matches any.

        Source: ResourcesFor in k8s.io/apimachinery's pkg/api/meta/restmapper.go.
        """
        name = resource.lower()
        return tuple(
            resource_.kind
            for resource_ in self.resources
            if resource_.version == version
            and (not group or resource_.group == group)
            and name in (resource_.name, resource_.kind.kind.lower())
            and "/" not in resource_.name
        )

    def open_api(self, kind: GroupVersionKind) -> OpenApi | None:
        """The schema of a kind; None if it is unknown."""
        return schema.open_api(kind) or self.custom.get(kind)


def catalog(objects: Iterable[Any]) -> ResourceCatalog:
    """The built-in resources, and those of the CustomResourceDefinitions among the objects."""
    versions = [
        resources_ for item in objects if _is_definition(item) for resources_ in _versions(item.get("spec") or {})
    ]
    own = tuple(resource for resources_, _ in versions for resource in resources_)
    schemas = {
        resources_[0].kind: schema.open_api_of_custom_resource(written) for resources_, written in versions if written
    }
    return ResourceCatalog((*resources.built_in(), *own), schemas)


def _is_definition(value: Any) -> bool:
    return isinstance(value, dict) and value.get("kind") == "CustomResourceDefinition"


def _versions(spec: Mapping[str, Any]) -> Iterator[tuple[tuple[ApiResource, ...], OpenApi | None]]:
    names = spec.get("names") or {}
    group, plural = str(spec.get("group", "")), str(names.get("plural", ""))
    scope: resources.Scope = "Cluster" if spec.get("scope") == "Cluster" else "Namespaced"
    for entry in spec.get("versions") or ():
        version = str(entry.get("name", ""))
        kind = GroupVersionKind(group, version, str(names.get("kind", "")))
        subresources = (f"{plural}/{name}" for name in entry.get("subresources") or ())
        defined = tuple(ApiResource(group, version, name, kind, scope) for name in (plural, *subresources))
        yield defined, (entry.get("schema") or {}).get("openAPIV3Schema")
