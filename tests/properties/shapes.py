"""Objects as nobody should send them: parents missing, nulls, empty lists, other types, at any place."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

# Bounded in number, not in time: a slow machine is no reason to fail.
bounded = settings(max_examples=200)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.floats(allow_nan=False, allow_infinity=False, width=16),
    st.text(max_size=4),
)
json_values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=6,
)
_JUNK: SearchStrategy[Any] = st.sampled_from(
    [None, {}, [], "", "x", 0, 1, True, 1.5, [None], ["x"], {"x": None}, [[]], [{}]]
).map(deepcopy)  # no two places of an object share a value, as in decoded JSON


def odd(usual: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """What should be there, seven times out of eight."""
    return st.integers(0, 7).flatmap(lambda draw: usual if draw else _JUNK)


def fields(**usual: SearchStrategy[Any]) -> SearchStrategy[dict[str, Any]]:
    """A map with any of the fields, each of them possibly odd."""
    return st.fixed_dictionaries({}, optional={name: odd(value) for name, value in usual.items()})


def some_of(item: SearchStrategy[Any]) -> SearchStrategy[list[Any]]:
    """A short list of possibly odd items."""
    return st.lists(odd(item), max_size=3)


def everywhere(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every place in a value with what is there, parents first."""
    yield at, value
    children: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from everywhere(child, (*at, key))


_KEYS = st.sampled_from(
    ["is_cpu_compute", "is_gpu", "sunk.coreweave.com/lock", "node.coreweave.cloud/reserved", "", "x"]
)
_NODE_LABELS = st.sampled_from(["zone", "disk", "metadata.name", "sunk.coreweave.com/cluster"])
_VALUES = st.sampled_from(["", "true", "a", "b", "7", "a1b2", "n1"])
_QUANTITIES = st.sampled_from(["0", "1", "0m", "0e3", "500m", "-1", "x", "", 0, 2, 0.0])
_RESOURCES = st.sampled_from(
    ["cpu", "nvidia.com/gpu", "deviceclass.resource.kubernetes.io/gpu.nvidia.com", "example.org/x"]
)

_tolerations = fields(
    key=_KEYS,
    operator=st.sampled_from(["Exists", "Equal", "", "Lt"]),
    value=_VALUES,
    effect=st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule", ""]),
)
_quantities = st.dictionaries(_RESOURCES, odd(_QUANTITIES), max_size=2)
_containers = some_of(fields(resources=fields(limits=_quantities, requests=_quantities)))
_requirements = some_of(
    fields(
        key=_NODE_LABELS,
        operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
        values=some_of(_VALUES),
    )
)
_terms = fields(nodeSelectorTerms=some_of(fields(matchExpressions=_requirements, matchFields=_requirements)))
_claims = some_of(fields(resourceClaimName=_VALUES, resourceClaimTemplateName=_VALUES))

pod_specs = fields(
    containers=_containers,
    initContainers=_containers,
    tolerations=some_of(_tolerations),
    nodeSelector=st.dictionaries(_NODE_LABELS, odd(_VALUES), max_size=2),
    affinity=fields(nodeAffinity=fields(requiredDuringSchedulingIgnoredDuringExecution=_terms)),
    resourceClaims=_claims,
    nodeName=_VALUES,
)
_metadata = fields(
    name=_VALUES,
    labels=st.dictionaries(_KEYS, odd(_VALUES), max_size=2),
    annotations=st.dictionaries(st.sampled_from(["kubernetes.io/config.mirror", "x"]), odd(_VALUES), max_size=1),
    ownerReferences=some_of(fields(controller=st.booleans())),
    deletionTimestamp=st.sampled_from(["", "2026-03-01T00:00:00Z"]),
)


def typed(api_version: str, kind: str, spec: SearchStrategy[Any]) -> SearchStrategy[dict[str, Any]]:
    """An object of a kind; the rest of it may be odd."""
    return fields(metadata=_metadata, spec=spec).map(lambda obj: {**obj, "apiVersion": api_version, "kind": kind})


pods = typed("v1", "Pod", pod_specs)
daemon_sets = typed("apps/v1", "DaemonSet", fields(template=fields(metadata=_metadata, spec=pod_specs)))
