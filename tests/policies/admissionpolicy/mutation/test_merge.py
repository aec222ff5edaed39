"""The structured merge: what an apply configuration sets, what it leaves, and what it may not say."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.builders import Json

from policies.admissionpolicy import schema
from policies.admissionpolicy.mutation.merge import Foreign, MergeError, atomics, check, merge
from policies.admissionpolicy.schema import Definitions, SchemaNode
from policies.cel.values import ABSENT, Uint
from policies.engine.request import GroupVersionKind

_CASES = yaml.safe_load(Path(__file__).with_name("merge.yaml").read_text(encoding="utf-8"))
_NODE: SchemaNode = Definitions({}).inline(_CASES["schema"])


@pytest.mark.parametrize("case", _CASES["merges"], ids=lambda case: case["name"])
def test_merges(case: Json) -> None:
    """What is applied is set by the rules of its place; the rest stays, and neither input is changed."""
    before = deepcopy(case)

    merged = merge(case.get("live", ABSENT), case.get("applied", ABSENT), _NODE)

    assert repr(merged) == repr(case["result"])  # true is no 1
    assert case == before


def test_what_is_not_reached_is_shared() -> None:
    """Only the containers along the changed paths are new; where nothing changes it is the object itself."""
    live: dict[str, Any] = {"labels": {"a": "1"}, "inner": {"a": "1"}, "named": [{"name": "a"}, {"name": "b"}]}

    merged = merge(live, {"labels": {"b": "2"}, "named": [{"name": "b", "value": "3"}]}, _NODE)

    assert merged["inner"] is live["inner"]
    assert merged["named"][0] is live["named"][0]
    assert merge(live, {"labels": {}, "named": [{"name": "a"}]}, _NODE) is live


@pytest.mark.parametrize(
    "case",
    [
        *_CASES["refused"],
        {"applied": {"number": Foreign(Uint(3))}, "text": '.number: expected numeric (int or float), got "<uint>"'},
        {"applied": {"any": Foreign(Uint(3))}, "text": '.any: expected map, got "<uint>"'},
    ],
    ids=lambda case: repr(case["applied"]),
)
def test_refused_configurations(case: Json) -> None:
    """What the schema does not allow is refused in the API server's words, all of it at once."""
    with pytest.raises(MergeError) as caught:
        check(case["applied"], _NODE)

    assert str(caught.value) == case["text"]


def test_allowed_configuration() -> None:
    """Null is allowed anywhere but in a list, and a scalar of any kind where the schema leaves it open."""
    check({"text": None, "labels": None, "list": None, "either": 3, "set": [True, 1.5, "a"], "any": {"a": [1]}}, _NODE)


@pytest.mark.parametrize("case", _CASES["atomics"], ids=lambda case: repr(case["applied"]))
def test_atomics(case: Json) -> None:
    """Lists and maps that would be replaced as a whole are found, whatever is in them."""
    assert list(atomics(case["applied"], _NODE)) == case["found"]


_PODS = schema.built_in(GroupVersionKind("", "v1", "Pod"))
_OMITS = 'element 0: associative list with keys has an element that omits all key fields ["name"] '


def _env(*items: Any) -> Json:
    return {"spec": {"containers": [{"name": "a", "env": list(items)}]}}


@pytest.mark.parametrize(
    ("live", "applied", "text"),
    [
        ({"named": [{"value": "x"}]}, {"named": [{"name": "a"}]}, f".named: {_OMITS}"),
        (
            _env("odd"),
            _env({"name": "X"}),
            '.spec.containers[name="a"].env: element 0: associative list with keys may not have non-map elements',
        ),
    ],
)
def test_live_items_that_cannot_be_told_apart(live: Json, applied: Json, text: str) -> None:
    """A list whose items have no keys cannot be merged into; the error says where it is."""
    assert _PODS is not None
    with pytest.raises(MergeError) as caught:
        merge(live, applied, _NODE if "named" in live else _PODS.root)

    assert str(caught.value).startswith(text)
