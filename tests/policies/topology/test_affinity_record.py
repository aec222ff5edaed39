"""The record of what was written: what is read is what was written, or nothing."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import WORKLOADS

from policies.topology.affinity import NOTHING, Record, RecordEntry, Replacement, read_record, write_record
from policies.topology.annotation import Schedulers, annotated

_KEY = "cks-admission.dev/topology"
_TERM = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]}
_ENTRY = RecordEntry(
    (Replacement((_TERM, _TERM), {"matchFields": []}), Replacement((_TERM,))), ({"weight": 1},), "nodeAffinity"
)
_TEXT = (
    '{"spec.template":{"required":[{"to":[{"matchExpressions":[{"key":"a","operator":"In","values":["1"]}]},'
    '{"matchExpressions":[{"key":"a","operator":"In","values":["1"]}]}],"from":{"matchFields":[]}},'
    '{"to":[{"matchExpressions":[{"key":"a","operator":"In","values":["1"]}]}]}],'
    '"preferred":[{"weight":1}],"created":"nodeAffinity"}}'
)


def _object(text: Any) -> dict[str, Any]:
    return {"metadata": {"annotations": {_KEY: text}}}


def _record(obj: dict[str, Any]) -> Record | None:
    return annotated(obj, WORKLOADS["", "Pod"], Schedulers()).record


def _read(text: Any) -> Record | None:
    record = read_record(text)
    assert _record(_object(text)) == record
    return record


def test_there_and_back() -> None:
    """The text holds everything, and only what says something."""
    assert write_record({"spec.template": _ENTRY, "": NOTHING}) == (_TEXT, ())
    assert _read(_TEXT) == {"spec.template": _ENTRY}


@pytest.mark.parametrize("obj", [{}, {"metadata": {}}, {"metadata": {"annotations": None}}, _object(None)])
def test_no_record(obj: Any) -> None:
    """Where there is none, nothing is recorded; and a record of nothing is none."""
    assert _record(obj) == {}
    assert (write_record({}), write_record({"": NOTHING})) == (("", ()), ("", ()))


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "{", "[]", "null", "1", '{"": 1}', '{"": {"required": 1}}', '{"": {"required": [1]}}'),
        *('{"": {"required": [{}]}}', '{"": {"required": [{"to": "x"}]}}', '{"": {"required": [{"to": [], "x": 1}]}}'),
        *('{"": {"created": "metadata"}}', '{"": {"other": 1}}', '{"": {"preferred": {}}}', '{"": {}} x'),
        pytest.param("[" * 100_000, id="deep"),
        pytest.param(1, id="number"),
        pytest.param(["x"], id="list"),
    ],
)
def test_what_cannot_be_read(text: Any) -> None:
    """Whatever somebody else wrote there is no record, and nothing of it is taken."""
    assert _read(text) is None
