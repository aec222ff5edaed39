"""Topology annotations on objects of any size: what is written and noted stays bounded, and so does the work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import FACTS, WORKLOADS, Json, pod, request

from policies.objects import patch
from policies.topology.affinity import LONGEST_READ, RECORD, RECORD_LENGTH
from policies.topology.catalog import BUILT_IN, Catalog
from policies.topology.constraint import Options
from policies.topology.rule import TopologyPlacement

_RULE = TopologyPlacement(Catalog(BUILT_IN), Options(WORKLOADS))
_STORED = 1_572_864
"""The API server stores objects of up to 1.5 MiB."""


def _affinity(terms: int, preferences: int = 0) -> Json:
    def chosen(number: int) -> Json:
        return {"matchExpressions": [{"key": "disk", "operator": "In", "values": [str(number)]}]}

    required = {"nodeSelectorTerms": [chosen(number) for number in range(terms)]} if terms else None
    preferred = [{"weight": 1, "preference": chosen(number)} for number in range(preferences)]
    key = "DuringSchedulingIgnoredDuringExecution"
    node = {f"required{key}": required, f"preferred{key}": preferred}
    return {"nodeAffinity": {name: value for name, value in node.items() if value}}


def _annotations(placement: str = "superpod=3", preferred: str = "") -> Json:
    soft = {"kai.scheduler/topology-preferred-placement": preferred} if preferred else {}
    name = "kai.scheduler/topology"
    return {name: "coreweave", f"{name}-required-placement": placement, **soft}


def _pod(affinity: Json, annotations: Json) -> Json:
    return pod({"nvidia.com/gpu": 8}, metadata={"annotations": annotations}, affinity=affinity)


def _groups(count: int, affinity: Json, annotations: Json) -> Json:
    """A RayCluster with many worker groups."""
    group = {"template": {"spec": {"containers": [], "affinity": affinity}}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "x", "annotations": annotations},
        "spec": {"workerGroupSpecs": [group] * count},
    }


def _translated(obj: Json, old: Json | None = None) -> tuple[Json, tuple[str, ...]]:
    mutation = _RULE.mutate(request(obj, old=old), FACTS)
    return patch.apply(obj, mutation.operations), mutation.warnings


_placements = st.sampled_from(["superpod=3", "superpod", f"superpod in ({','.join(map(str, range(900)))})"])
_OBJECTS: list[Callable[[int, Json, Json], Json]] = [
    lambda _, affinity, annotations: _pod(affinity, annotations),
    _groups,
]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(_OBJECTS),
    st.sampled_from([1, 2, 17, 400, 1500]),
    st.sampled_from([0, 1, 3, 90, 800, 1400, 3000]),
    st.sampled_from([0, 2, 500]),
    _placements,
    st.sampled_from(["", "rack"]),
)
def test_large_objects_are_translated_once(
    make: Any, groups: int, terms: int, preferences: int, placement: str, preferred: str
) -> None:
    """What was translated is translated already, its record fits, and nothing is told of what is in order."""
    if groups * (terms + preferences) > 3000:
        terms, preferences = terms % 7, preferences % 7
    obj = make(groups, _affinity(terms, preferences), _annotations(placement, preferred))

    once, _ = _translated(obj)

    assert len(once["metadata"]["annotations"].get(RECORD, "")) <= RECORD_LENGTH
    assert len(msgspec.json.encode(once)) < _STORED
    for old in (None, obj, once):
        assert _translated(once, old) == (once, ())
    told = [each.summary for each in _RULE.validate(request(once), FACTS) if "not in the node affinity" in each.summary]
    assert all("it would get too large" in each for each in told)


def test_a_pod_with_many_terms_of_its_own_is_stored() -> None:
    """A Pod with 800 terms of its own gets its placement, and is told that it cannot be taken out again."""
    once, warnings = _translated(_pod(_affinity(800), _annotations()))

    node = once["spec"]["affinity"]["nodeAffinity"]
    terms = node["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert all(len(term["matchExpressions"]) > 1 for term in terms)
    assert RECORD not in once["metadata"]["annotations"]
    assert warnings == ("spec: node affinity is too long to be noted, so it stays when the annotations change",)


def test_a_placement_that_would_get_too_large_is_left_out() -> None:
    """Where each of many terms would get many domains nothing is written, and the author is told."""
    obj = _pod(_affinity(1000), _annotations(f"superpod in ({','.join(map(str, range(3000)))})"))

    assert _translated(obj) == (obj, ())
    (told,) = [each.summary for each in _RULE.validate(request(obj), FACTS) if "would get too large" in each.summary]
    assert told.endswith("is not in the node affinity: it would get too large")


def test_a_record_forgets_earlier_placements_first() -> None:
    """Terms of before make way for those of now."""
    deployment: Json = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "x", "annotations": _annotations("superpod=0")},
        "spec": {"template": {"metadata": {}, "spec": {"containers": [], "affinity": _affinity(30)}}},
    }
    now, _ = _translated(deployment)
    for number in range(1, 5):
        new = deepcopy(now)
        new["metadata"]["annotations"] |= _annotations(f"superpod={number}")
        now, warnings = _translated(new, now)
        assert warnings == ()

    record = now["metadata"]["annotations"].get(RECORD)
    assert len(record) <= RECORD_LENGTH
    (entry,) = msgspec.json.decode(record).values()
    assert "earlier" not in entry
    for key in _annotations():
        del now["metadata"]["annotations"][key]
    assert _translated(now)[0]["spec"]["template"]["spec"]["affinity"] == _affinity(30)


def test_a_record_that_is_too_long_is_not_read() -> None:
    """A record that no API server would store is dropped, and that is told."""
    obj = _pod(_affinity(1), {**_annotations(), RECORD: "{}" + " " * LONGEST_READ})

    once, (warning,) = _translated(obj)

    assert len(once["metadata"]["annotations"][RECORD]) <= RECORD_LENGTH
    assert warning.endswith("cannot be read and is dropped; node affinity that it noted stays")


def _earlier(count: int) -> str:
    entries = [{"required": [{"to": [{"a": number}]}]} for number in range(count)]
    return msgspec.json.encode({"": {"required": [{"to": [{"a": 1}]}], "earlier": entries}}).decode()


_GROWING: dict[str, Callable[[int], Json]] = {
    "terms": lambda count: _pod(_affinity(count), _annotations()),
    "preferences": lambda count: _pod(_affinity(0, count), _annotations(preferred="rack")),
    "record": lambda count: _pod(_affinity(count), {**_annotations(), RECORD: _earlier(count)}),
    "groups": lambda count: _groups(count, _affinity(1), _annotations()),
    "domains": lambda count: _pod(_affinity(count), _annotations(f"superpod in ({','.join(map(str, range(count)))})")),
}


def _calls(work: Callable[[], object]) -> int:
    """How many functions written in Python are called."""
    count = 0

    def counted(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("name", _GROWING)
@pytest.mark.parametrize("updated", [False, True], ids=["create", "update"])
def test_work_grows_no_faster_than_the_object(name: str, updated: bool) -> None:  # noqa: FBT001
    """An object of four times the size costs at most five times the work."""

    def work(count: int) -> int:
        obj = _GROWING[name](count)
        old = None
        if updated:
            old = deepcopy(obj)
            old["metadata"]["annotations"] |= _annotations("superpod=77")
        asked = request(obj, old=old)
        return _calls(lambda: (_RULE.mutate(asked, FACTS), _RULE.validate(asked, FACTS)))

    work(10)  # fills caches
    assert work(400) <= 5 * work(100)
