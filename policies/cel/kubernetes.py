"""The environment of admission policies in kube-apiserver: its variables, their types, its libraries.

The functions are the newest release's. `FORMER` holds the overloads of the releases before. A library that came with a
release says so itself (`Library.since`), because new expressions may not use it at once. What the language itself has
since a release is a `Feature` of the dialect.

Sources: k8s.io/apiserver's pkg/cel/environment/base.go (libraries and their versions), and of
pkg/admission/plugin/cel compile.go (variables and the declared fields of `request` and `namespaceObject`) and
composition.go (`variables`); the differences between cel-go 0.26.0 (1.36), 0.29.2 (1.37) and 0.33.2 (1.38).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from policies.cel import cost
from policies.cel.environment import (
    NEW,
    STANDARD_TYPES,
    Dialect,
    Environment,
    Implementation,
    Library,
    Overload,
    merged,
)
from policies.cel.library import authorizer, lists, quantity, regex, strings, texts
from policies.cel.library.operators import ARITHMETIC, OPTIONAL, RELATIONS, comparisons
from policies.cel.types import BOOL, DYN, INT, STRING, TIMESTAMP, Kind, Type, list_of, map_of, struct
from policies.kubernetes.release import V1_37, V1_38, Release


@dataclass(frozen=True, slots=True)
class Former:
    """Overloads as they were before a release, by the names of their functions.

    An overload with the id of a present one stands in its place; another one comes last. calls: former implementations
    for all overloads of a function.
    """

    until: Release
    what: str
    overloads: Mapping[str, tuple[Overload, ...]] = field(default_factory=dict)
    calls: Mapping[str, Implementation] = field(default_factory=dict)


def _was(library: Library, *ids: str, **changes: object) -> dict[str, tuple[Overload, ...]]:
    """Present overloads with some of their fields as they were, by the names of their functions."""
    former: dict[str, tuple[Overload, ...]] = {}
    for function in library.functions:
        for overload in function.overloads:
            if overload.id in ids:  # fields of an Overload
                former[function.name] = (*former.get(function.name, ()), replace(overload, **changes))  # type: ignore[arg-type]
    return former


FORMER = (
    Former(V1_38, "A comparison with NaN fails, and is not false.", calls=comparisons(total=True)),
    Former(
        V1_38,
        "A failure of `slice`, `reverse` and `lists.range` costs 1 more.",
        _was(lists.CEL_LISTS, "list_slice", "list_reverse", "lists_range", cost=lists.of_any_result),
    ),
    Former(
        V1_38,
        "A quantity of 19 digits is no integer. `asApproximateFloat` of more digits is less exact.",
        {
            **_was(quantity.LIBRARY, "string_to_quantity", call=quantity.read_formerly),
            **_was(quantity.LIBRARY, "quantity_sub_int", call=quantity.subtract_formerly),
        },
    ),
    Former(
        V1_37,
        "`startsWith` and `endsWith` cost one pass over the text, and not over what is looked for.",
        _was(strings.TEXT, "starts_with_string", "ends_with_string", cost=cost.of_first),
    ),
    Former(V1_37, "`matches(text, pattern)` costs 1, as a call.", _was(regex.LIBRARY, "matches", cost=1)),
    Former(V1_37, "`duration` takes an int, which then fails.", {"duration": (strings.INT_TO_DURATION,)}),
    Former(
        V1_37,
        "`lists.range` gives an empty list for a negative size, and has no limit of its own.",
        _was(lists.CEL_LISTS, "lists_range", call=lists.unbounded_range, cost=lists.of_any_result),
    ),
    Former(
        V1_37,
        "An empty text is found at any offset, also behind the end and before the start.",
        {
            **_was(strings.STRINGS, "string_index_of_string_int", call=strings.index_of_anywhere),
            **_was(strings.STRINGS, "string_last_index_of_string_int", call=strings.last_index_of_anywhere),
        },
    ),
)
"""The latest first: what differed before an older release takes the place of what differed before a newer one."""


STANDARD = (RELATIONS, ARITHMETIC, strings.CONVERSION, strings.TEXT, strings.TIME)
KUBERNETES = (
    texts.URLS,
    regex.LIBRARY,
    lists.LISTS,
    authorizer.LIBRARY,
    OPTIONAL,
    quantity.LIBRARY,
    strings.STRINGS,
    lists.SETS,
    texts.IPS,
    texts.CIDRS,
    texts.FORMATS,
    lists.COMPREHENSIONS,
    texts.SEMVERS,
    lists.CEL_LISTS,
    lists.VERSION_1,
    texts.CIDRS_1,
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
    _KIND.name: dict.fromkeys(("group", "version", "kind"), STRING),
    _RESOURCE.name: dict.fromkeys(("group", "version", "resource"), STRING),
    _USER.name: {"username": STRING, "uid": STRING, "groups": _STRINGS, "extra": map_of(STRING, _STRINGS)},
    REQUEST.name: {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": STRING,
        **dict.fromkeys(("name", "namespace", "operation"), STRING),
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
        **dict.fromkeys(("name", "generateName", "namespace"), STRING),
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
    known = (*STANDARD, *KUBERNETES, *((texts.JSONPATCH,) if patch_types else ()))
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
    functions = merged(libraries)
    for former in FORMER:
        for name in (former.overloads.keys() | former.calls.keys()) if dialect.release < former.until else ():
            function = functions[name]
            by_id = {overload.id: overload for overload in (*function.overloads, *former.overloads.get(name, ()))}
            call = former.calls.get(name, function.call)
            functions[name] = replace(function, overloads=tuple(by_id.values()), call=call)
    return Environment(
        functions=functions,
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
