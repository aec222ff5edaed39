"""The environment of admission policies in kube-apiserver: its variables, their types, its libraries.

Sources: k8s.io/apiserver's pkg/cel/environment/base.go (libraries and their versions), and of
pkg/admission/plugin/cel compile.go (variables and the declared fields of `request` and `namespaceObject`) and
composition.go (`variables`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from policies.cel.dialect import NEW, Dialect
from policies.cel.environment import STANDARD_TYPES, Environment, merged
from policies.cel.library import (
    arithmetic,
    authorizer,
    conversion,
    ip,
    lists,
    optional,
    quantity,
    regex,
    relations,
    semver,
    strings,
    time,
    url,
)
from policies.cel.library import format as format_
from policies.cel.library.changes import formerly
from policies.cel.types import BOOL, DYN, INT, STRING, TIMESTAMP, Kind, Type, list_of, map_of, struct

STANDARD = (relations.LIBRARY, arithmetic.LIBRARY, conversion.LIBRARY, strings.TEXT, time.LIBRARY)
KUBERNETES = (
    url.URLS,
    regex.LIBRARY,
    lists.LISTS,
    authorizer.LIBRARY,
    optional.LIBRARY,
    quantity.LIBRARY,
    strings.STRINGS,
    lists.SETS,
    ip.IPS,
    ip.CIDRS,
    format_.LIBRARY,
    lists.COMPREHENSIONS,
    semver.LIBRARY,
    lists.CEL_LISTS,
    lists.VERSION_1,
)

_STRINGS = list_of(STRING)
_LABELS = map_of(STRING, STRING)
_KIND, _RESOURCE, _USER = (
    struct(f"kubernetes.{name}") for name in ("GroupVersionKind", "GroupVersionResource", "UserInfo")
)
REQUEST = struct("kubernetes.AdmissionRequest")
NAMESPACE = struct("kubernetes.Namespace")
VARIABLES = struct("kubernetes.variables")

STRUCTS: Mapping[str, Mapping[str, Type]] = {
    _KIND.name: {"group": STRING, "version": STRING, "kind": STRING},
    _RESOURCE.name: {"group": STRING, "version": STRING, "resource": STRING},
    _USER.name: {"username": STRING, "uid": STRING, "groups": _STRINGS, "extra": map_of(STRING, _STRINGS)},
    REQUEST.name: {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYN,
    },
    NAMESPACE.name: {
        "metadata": struct("kubernetes.NamespaceMetadata"),
        "spec": struct("kubernetes.NamespaceSpec"),
        "status": struct("kubernetes.NamespaceStatus"),
    },
    "kubernetes.NamespaceMetadata": {
        "name": STRING,
        "generateName": STRING,
        "namespace": STRING,
        "labels": _LABELS,
        "annotations": _LABELS,
        "UID": STRING,
        "creationTimestamp": TIMESTAMP,
        "deletionGracePeriodSeconds": INT,
        "deletionTimestamp": TIMESTAMP,
        "generation": INT,
        "resourceVersion": STRING,
        "finalizers": _STRINGS,
    },
    "kubernetes.NamespaceSpec": {"finalizers": _STRINGS},
    "kubernetes.NamespaceStatus": {"conditions": list_of(struct("kubernetes.NamespaceCondition")), "phase": STRING},
    "kubernetes.NamespaceCondition": {
        "status": STRING,
        "type": STRING,
        "lastTransitionTime": TIMESTAMP,
        "message": STRING,
        "reason": STRING,
    },
    VARIABLES.name: {},
    # Kubernetes declares these names as types without values
    "timestamp": {},
    "duration": {},
}


@cache
def admission(
    *, params: bool = True, authorizer_: bool = True, patch_types: bool = False, dialect: Dialect = NEW
) -> Environment:
    """The environment of a policy's expressions.

    `params`: the policy has a paramKind. `authorizer_`: False only for match conditions of old webhooks. `patch_types`:
    for the mutations of a MutatingAdmissionPolicy. `dialect`: the release, and whether the policy is stored.

    >>> sorted(admission(params=False).variables)[:3]
    ['authorizer', 'authorizer.requestResource', 'namespaceObject']
    """
    known = (*STANDARD, *KUBERNETES, *((url.JSONPATCH,) if patch_types else ()))
    libraries = [library for library in known if dialect.knows(library)]
    variables = {
        "object": DYN,
        "oldObject": DYN,
        "namespaceObject": NAMESPACE,
        "request": REQUEST,
        "variables": VARIABLES,
    }
    if params:
        variables["params"] = DYN
    if authorizer_:
        variables |= {"authorizer": authorizer.AUTHORIZER, "authorizer.requestResource": authorizer.RESOURCE_CHECK}
    return Environment(
        functions=formerly(merged(libraries), dialect.release),
        variables=variables,
        structs=STRUCTS,
        type_names={
            **STANDARD_TYPES,
            **{name: type_ for library in libraries for name, type_ in library.types.items()},
        },
        patch_types=patch_types,
        dialect=dialect,
    )


_KEPT = {Kind.BOOL, Kind.BYTES, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.NULL, Kind.STRING, Kind.TIMESTAMP, Kind.UINT}


def variable_type(type_: Type) -> Type:
    """The type of `variables.x` for an expression of a type: a plain type, a list or map of plain types, else dyn."""
    if type_.kind in _KEPT:
        return type_
    if type_.kind in (Kind.LIST, Kind.MAP):
        return Type(type_.kind, type_.name, tuple(map(variable_type, type_.parameters)))
    return DYN
