"""The controller that owns an object, from references that anybody may have written."""

from __future__ import annotations

from typing import Any

import pytest

from policies.engine.request import Owner, controller

_REFERENCE = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": True}


def test_the_controller_is_one_of_the_owners() -> None:
    """Others own an object, too; only one of them is its controller."""
    other = {**_REFERENCE, "name": "other", "controller": False}
    owner = controller({"metadata": {"ownerReferences": [other, _REFERENCE]}})

    assert owner == Owner("apps/v1", "ReplicaSet", "web-1", "u")
    assert owner.group_kind == ("apps", "ReplicaSet")


@pytest.mark.parametrize(
    "references",
    [
        None,
        {},
        ["web-1"],
        [{**_REFERENCE, "controller": "true"}],
        [{**_REFERENCE, "uid": 1}],
        [{**_REFERENCE, "name": ""}],
        [{**_REFERENCE, "uid": "u" * 254}],
    ],
)
def test_what_is_no_reference_names_no_controller(references: Any) -> None:
    """Missing, of another type, empty, or longer than any name is."""
    assert controller({"metadata": {"ownerReferences": references}}) is None
