"""Lint never reports a field as absent that a real API server fills in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cluster.apicalls import Caller
from cluster.test_defaults import KINDS, path
from policies.cel import types
from policies.cel.types import Kind, Type
from policies.engine.request import GroupVersionKind
from policies.lint.absence import FieldPresence
from policies.lint.typecheck import DeclaredType, catalog, declare

if TYPE_CHECKING:
    from collections.abc import Iterator


Json = dict[str, Any]
_OBJECTS = [case["minimal"] for case in KINDS if "REQUEST" not in str(case["minimal"])]


@pytest.mark.parametrize("written", _OBJECTS, ids=[f"{each['kind']}.{each['apiVersion']}" for each in _OBJECTS])
def test_what_is_filled_in_is_there(caller: Caller, written: Json) -> None:
    """Of an object with as little as possible, no field that the API server added may be absent for lint."""
    found = caller.make(path(written), written)

    group, _, version = written["apiVersion"].rpartition("/")
    schema = catalog(()).open_api(GroupVersionKind(group, version, written["kind"]))
    assert schema is not None
    declared = declare(written["kind"], schema, types.DYN)
    assert declared is not None
    assert sorted(_added(found, written, declared.type, declared, "object")) == []


def _added(found: Any, written: Any, type_: Type, declared: DeclaredType, place: str) -> Iterator[str]:
    """The fields that were not written, are there, and may be absent as far as lint knows."""
    if type_.kind is Kind.LIST and isinstance(found, list):
        for index, item in enumerate(found):
            if isinstance(written, list) and index < len(written):
                yield from _added(item, written[index], type_.parameters[0], declared, f"{place}[{index}]")
    if type_.kind is not Kind.STRUCT or not isinstance(found, dict):
        return
    presence, given = FieldPresence(declared), written if isinstance(written, dict) else {}
    for name, value in found.items():
        if name not in given and presence.may_lack(type_.name, name, place):
            yield f"{place}.{name}"
        elif (below := declared.structs[type_.name].get(name)) is not None:
            yield from _added(value, given.get(name), below, declared, f"{place}.{name}")
