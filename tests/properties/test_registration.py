"""What stays of the requirements that others add to webhook configurations, for any requirements."""

from __future__ import annotations

from fnmatch import fnmatchcase

from hypothesis import given
from hypothesis import strategies as st
from support.builders import Json

from properties.shapes import bounded
from webhook.configuration.settings import KeptRequirement
from webhook.registration.configurations import difference, kept

_NAME = "kubernetes.io/metadata.name"
_KEYS = st.sampled_from(["control-plane", _NAME, "other"])
_VALUES = st.lists(
    st.sampled_from(["true", "kube-system", "kube-public", "default"]), min_size=1, max_size=3, unique=True
)
_REQUIREMENTS = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        _KEYS,
        st.sampled_from(["In", "NotIn"]),
        _VALUES,
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator}, _KEYS, st.sampled_from(["Exists", "DoesNotExist"])
    ),
)
_SELECTORS = st.one_of(
    st.just({}), st.builds(lambda requirements: {"matchExpressions": requirements}, st.lists(_REQUIREMENTS, max_size=4))
)
_ALLOWED = st.lists(
    st.builds(
        lambda key, values: KeptRequirement(key=key, values=tuple(values)),
        _KEYS,
        st.lists(st.sampled_from(["true", "kube-*", "*"]), max_size=2),
    ),
    max_size=3,
)


def _configuration(selectors: list[Json]) -> Json:
    entries = [{"name": f"{n}.cks-admission.dev", "namespaceSelector": one} for n, one in enumerate(selectors)]
    return {"metadata": {"name": "cks-admission"}, "webhooks": entries}


_CONFIGURATIONS = st.lists(_SELECTORS, min_size=1, max_size=3).map(_configuration)


def _requirements(configuration: Json) -> list[list[Json]]:
    return [entry["namespaceSelector"].get("matchExpressions", []) for entry in configuration["webhooks"]]


def _may_stay(requirement: Json, allowed: list[KeptRequirement]) -> bool:
    """What the settings promise, once more and plainly."""
    lines = [line for line in allowed if line.key == requirement["key"]]
    if requirement["operator"] == "DoesNotExist":
        return bool(lines) and requirement["key"] != _NAME
    return requirement["operator"] == "NotIn" and any(
        all(any(fnmatchcase(value, glob) for glob in line.values) for value in requirement["values"]) for line in lines
    )


@bounded
@given(_CONFIGURATIONS, _CONFIGURATIONS, _ALLOWED)
def test_what_is_kept(wanted: Json, observed: Json, allowed: list[KeptRequirement]) -> None:
    """All that is wanted is there, in front and in order, and what was observed and is listed; once is enough."""
    once = kept(wanted, observed, allowed)

    found = _requirements(once)
    there = [*_requirements(observed), *([[]] * len(found))]
    for own, after, other in zip(_requirements(wanted), found, there, strict=False):
        assert after[: len(own)] == own
        assert all(each in other and _may_stay(each, allowed) for each in after[len(own) :])
    assert kept(once, observed, allowed) == once
    assert kept(wanted, once, allowed) == once
    assert difference(kept(wanted, once, allowed), once) == []
