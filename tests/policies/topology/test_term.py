"""Terms: the alternatives that a placement comes to, and what becomes of a user's term beside them."""

from __future__ import annotations

from typing import Any

import pytest

from policies.engine.match import EVERYTHING, LabelSelector, SelectorRequirement
from policies.topology.placement import Domain
from policies.topology.term import Term, alternatives, combined, old_names, simplified, to_json
from policies.topology.topology import NVLINK, level

_B, _I = "backend.coreweave.cloud", "ib.coreweave.cloud"
_CLIQUE, _ACCELERATOR = "nvidia.com/gpu.clique", "network.topology.nvidia.com/accelerator"


def _in(key: str, *values: str) -> SelectorRequirement:
    return SelectorRequirement(key, "In", values)


def _not_in(key: str, *values: str) -> SelectorRequirement:
    return SelectorRequirement(key, "NotIn", values)


def _there(key: str) -> SelectorRequirement:
    return SelectorRequirement(key, "Exists")


def _absent(key: str) -> SelectorRequirement:
    return SelectorRequirement(key, "DoesNotExist")


_SUPERPOD, _FABRIC = Domain(level(f"{_B}/superpod"), ("3",)), Domain(level(f"{_B}/fabric"), ("f",))
_RACK = Domain(level("rack"), ("1",))
_INFINIBAND, _ROCE = (LabelSelector((_in(f"{_B}/flavor", name),)) for name in ("infiniband", "roce"))


@pytest.mark.parametrize(
    ("domains", "requirement", "terms"),
    [
        pytest.param([], EVERYTHING, (), id="nothing"),
        pytest.param([_RACK], EVERYTHING, ((_in("rack", "1"),),), id="one-name"),
        pytest.param([Domain(level("rack"))], EVERYTHING, ((_there("rack"),),), id="no-domain"),
        pytest.param(
            [_SUPERPOD], EVERYTHING, ((_in(f"{_B}/superpod", "3"),), (_in(f"{_I}/superpod", "3"),)), id="two-names"
        ),
        pytest.param(
            [_FABRIC, _SUPERPOD, _RACK],
            EVERYTHING,
            (
                (_in(f"{_B}/fabric", "f"), _in(f"{_B}/superpod", "3"), _in("rack", "1")),
                (_in(f"{_I}/fabric", "f"), _in(f"{_I}/superpod", "3"), _in("rack", "1")),
            ),
            id="names-are-not-mixed",
        ),
        pytest.param(
            [_RACK],
            _INFINIBAND,
            ((_in("rack", "1"), _in(f"{_B}/flavor", "infiniband")), (_in("rack", "1"), _there(f"{_I}/fabric"))),
            id="infiniband",
        ),
        pytest.param(
            [], _INFINIBAND, ((_in(f"{_B}/flavor", "infiniband"),), (_there(f"{_I}/fabric"),)), id="infiniband-only"
        ),
        pytest.param([_SUPERPOD], _ROCE, ((_in(f"{_B}/superpod", "3"), _in(f"{_B}/flavor", "roce")),), id="roce"),
        pytest.param(
            [_RACK],
            LabelSelector((_in("disk", "ssd"), _not_in(f"{_B}/flavor", "roce"))),
            (
                (_in("rack", "1"), _in("disk", "ssd"), _not_in(f"{_B}/flavor", "roce")),
                (_in("rack", "1"), _in("disk", "ssd"), _there(f"{_I}/fabric")),
            ),
            id="requirement-that-infiniband-meets",
        ),
        pytest.param(
            [Domain(NVLINK, ("n",))],
            EVERYTHING,
            ((_in(_CLIQUE, "n"),), (_in(_ACCELERATOR, "n"), _absent(_CLIQUE))),
            id="nvlink",
        ),
        pytest.param(
            [Domain(level(_ACCELERATOR), ("a",)), Domain(NVLINK)],
            EVERYTHING,
            (
                (_in(_ACCELERATOR, "a"), _there(_CLIQUE)),
                (_in(_ACCELERATOR, "a"), _absent(_CLIQUE)),
            ),
            id="nvlink-in-an-accelerator",
        ),
    ],
)
def test_alternatives(domains: list[Domain], requirement: LabelSelector, terms: tuple[Term, ...]) -> None:
    """There is a term for each way in which Nodes may be labelled, without what it says already."""
    assert alternatives(domains, requirement) == terms


def test_alternatives_of_which_a_node_meets_one() -> None:
    """The older way is for Nodes without the newer name of the nearest level that has two."""
    found = alternatives([_FABRIC, _SUPERPOD, _RACK], EVERYTHING, disjoint=True)

    assert found == (
        (_in(f"{_B}/fabric", "f"), _in(f"{_B}/superpod", "3"), _in("rack", "1")),
        (_in(f"{_I}/fabric", "f"), _in(f"{_I}/superpod", "3"), _in("rack", "1"), _absent(f"{_B}/superpod")),
    )


@pytest.mark.parametrize(
    ("selector", "old"),
    [
        pytest.param(EVERYTHING, EVERYTHING, id="nothing"),
        pytest.param(_INFINIBAND, LabelSelector((_there(f"{_I}/fabric"),)), id="infiniband"),
        pytest.param(_ROCE, None, id="roce"),
        pytest.param(
            LabelSelector((_in(f"{_B}/flavor", "roce", "infiniband"),)),
            LabelSelector((_there(f"{_I}/fabric"),)),
            id="either",
        ),
        pytest.param(LabelSelector((_not_in(f"{_B}/flavor", "infiniband"),)), None, id="not-infiniband"),
        pytest.param(LabelSelector((_absent(f"{_B}/flavor"),)), None, id="no-flavor"),
        pytest.param(
            LabelSelector((_there(f"{_B}/flavor"), _in(f"{_B}/speed.current", "400G"))),
            LabelSelector((_there(f"{_I}/fabric"), _in(f"{_I}/speed.current", "400G"))),
            id="another-renamed-label",
        ),
    ],
)
def test_requirements_in_older_names(selector: LabelSelector, old: LabelSelector | None) -> None:
    """A flavor is a fabric there, if InfiniBand meets it; what it does not meet has no older form."""
    assert old_names(selector) == old


@pytest.mark.parametrize(
    ("term", "kept"),
    [
        pytest.param([_there("a"), _in("a", "1")], (_in("a", "1"),), id="exists-and-in"),
        pytest.param([_in("a", "1", "2"), _in("a", "1")], (_in("a", "1"),), id="wider-in"),
        pytest.param([_in("a", "1"), _in("a", "1")], (_in("a", "1"),), id="the-same"),
        pytest.param([_in("a", "1", "2"), _in("a", "2", "1")], (_in("a", "2", "1"),), id="the-same-in-another-order"),
        pytest.param([_not_in("a", "1"), _absent("a")], (_absent("a"),), id="not-in-and-absent"),
        pytest.param([_not_in("a", "1"), _in("a", "2")], (_in("a", "2"),), id="not-in-and-in"),
        pytest.param([_not_in("a", "1"), _not_in("a", "2", "1")], (_not_in("a", "2", "1"),), id="wider-not-in"),
        pytest.param(
            [_in("a", "1"), _in("a", "2"), _there("b")],
            (_in("a", "1"), _in("a", "2"), _there("b")),
            id="nothing-to-drop",
        ),
    ],
)
def test_what_a_term_says_twice(term: list[SelectorRequirement], kept: Term) -> None:
    """What another requirement implies is left out."""
    assert simplified(term) == kept


def _json(*requirements: SelectorRequirement) -> dict[str, Any]:
    return {"matchExpressions": to_json(requirements)}


_FIELDS = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
_GT = {"key": "a", "operator": "Gt", "values": ["3"]}


@pytest.mark.parametrize(
    ("written", "terms", "expected"),
    [
        pytest.param(_json(_there("x")), [(_in("a", "1"),)], [_json(_there("x"), _in("a", "1"))], id="and"),
        pytest.param(
            _json(_there("x")),
            [(_in("a", "1"),), (_in("b", "1"),)],
            [_json(_there("x"), _in("a", "1")), _json(_there("x"), _in("b", "1"))],
            id="one-for-each-alternative",
        ),
        pytest.param(_FIELDS, [(_there("a"),)], [{**_FIELDS, **_json(_there("a"))}], id="fields"),
        pytest.param(
            {**_FIELDS, "more": 1}, [(_there("a"),)], [{**_FIELDS, "more": 1, **_json(_there("a"))}], id="anything-else"
        ),
        pytest.param(_json(_in("a", "1")), [(_there("a"),)], [_json(_in("a", "1"))], id="implied"),
        pytest.param(
            _json(_in("a", "1")), [(_there("b"),), (_in("a", "1", "2"),)], [_json(_in("a", "1"))], id="one-implied"
        ),
        pytest.param({"matchExpressions": [_GT]}, [(_there("a"),)], [{"matchExpressions": [_GT]}], id="greater"),
        pytest.param(
            _json(_there("x")),
            [(_there("a"),), (_there("a"), _there("b"))],
            [_json(_there("x"), _there("a"))],
            id="narrower-alternative",
        ),
        pytest.param(
            _json(_there("b")),
            [(_there("a"), _there("b")), (_there("a"), _there("c"))],
            [_json(_there("b"), _there("a"))],
            id="narrower-beside-what-is-there",
        ),
        pytest.param(_json(_there("x")), [], [_json(_there("x"))], id="no-alternatives"),
        *(
            pytest.param(term, [(_there("a"),)], [term], id=f"no-node-meets-{name}")
            for name, term in {
                "an-empty-one": {},
                "null-lists": {"matchExpressions": None, "matchFields": None},
                "empty-lists": {"matchExpressions": [], "matchFields": []},
                "null": None,
                "a-text": "x",
                "a-map-of-expressions": {"matchExpressions": {"key": "a"}},
                "odd-fields": {"matchExpressions": [_GT], "matchFields": "x"},
            }.items()
        ),
    ],
)
def test_a_term_of_the_users(written: Any, terms: list[Term], expected: list[Any]) -> None:
    """It is combined with each alternative; where it says one already, or no Node meets it, it stays as it is."""
    assert combined(written, terms) == expected


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param({"key": "a", "operator": "In"}, id="in-without-values"),
        pytest.param({"key": "a", "operator": "In", "values": []}, id="in-nothing"),
        pytest.param({"key": "a", "operator": "In", "values": "1"}, id="in-a-text"),
        pytest.param({"key": "a", "operator": "In", "values": [1]}, id="in-numbers"),
        pytest.param({"key": "a", "operator": "NotIn", "values": ["2"]}, id="not-in"),
        pytest.param({"key": "b", "operator": "In", "values": ["1"]}, id="another-key"),
        pytest.param({"key": "a", "operator": "Near", "values": ["1"]}, id="unknown-operator"),
        pytest.param({"key": "a", "operator": "DoesNotExist"}, id="absent"),
        pytest.param({}, id="nothing"),
        pytest.param("x", id="text"),
        pytest.param(None, id="null"),
    ],
)
def test_expressions_that_imply_nothing(expression: Any) -> None:
    """What does not say it, or cannot be read, is not taken to say it."""
    found = combined({"matchExpressions": [expression]}, [(_there("a"),)])

    assert found == [{"matchExpressions": [expression, {"key": "a", "operator": "Exists"}]}]


def test_what_is_excluded_is_excluded_under_every_name() -> None:
    """A Node that a requirement excludes by one name of a label does not pass by the absence of the other."""
    selector = LabelSelector((SelectorRequirement(f"{_B}/superpod", "NotIn", ("3",)),))
    both = tuple(SelectorRequirement(f"{prefix}/superpod", "NotIn", ("3",)) for prefix in (_B, _I))

    assert alternatives((), selector) == (both,)
    assert alternatives((), LabelSelector((SelectorRequirement(f"{_B}/flavor", "NotIn", ("infiniband",)),))) == (
        (
            SelectorRequirement(f"{_B}/flavor", "NotIn", ("infiniband",)),
            SelectorRequirement(f"{_I}/fabric", "DoesNotExist"),
        ),
    )
