"""The cases that compare our mutations with the API server's: an object, and the expressions that change it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.manifests import Manifest

GROUP = "merge.example.test"
SAME, VARIES, LENIENT = "same", "varies", "lenient"
"""What is compared: all; of an error only that there is one, for its text changes; all, but ours does what they refuse.

The last is for what a later release takes.
"""


@dataclass(frozen=True)
class Mutation:
    """A case: what is created, and the expressions of the policy that changes it, in their order."""

    name: str
    object: str
    expressions: tuple[str, ...]
    compared: str = SAME


def _case(name: str, object_name: str, written: Any) -> Mutation:
    if isinstance(written, dict):
        return Mutation(name, object_name, tuple(written["expressions"]), written["compared"])
    return Mutation(name, object_name, (written,) if isinstance(written, str) else tuple(written))


_FILE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
CASES = tuple(_case(name, obj, written) for obj, cases in _FILE["cases"].items() for name, written in cases.items())
OBJECTS: Mapping[str, tuple[str, Manifest]] = {
    name: (written["path"], written["manifest"]) for name, written in _FILE["objects"].items()
}
CRD: Manifest = _FILE["crd"]
SCHEMA: Manifest = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
