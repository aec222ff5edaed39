"""The ways to write a label. Each takes a target, and does all that alice can do with that way."""

from __future__ import annotations

import json
import os
from random import Random
from typing import TYPE_CHECKING, Any

from cluster.bypass.target import BEFORE
from policies.engine.request import MIRROR_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.bypass.target import Target
    from cluster.manifests import Manifest

_MERGE, _STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
_JSON_PATCH, _APPLY = "application/json-patch+json", "application/apply-patch+yaml"
_PROTOBUF, _CBOR = "application/vnd.kubernetes.protobuf", "application/cbor"
_PADDING = ((15_000, 1), (5_000, 247))
"""How many further labels there are, and how long their keys are at least.

With more labels the API server itself takes seconds for a write, as it does in every cluster. The guard's match
conditions cost 20 a label and nearly 1 a character of its key, which in the second case exceeds the limit of 1,000,000.
"""
_PADDED = ("ConfigMap", "StatefulSet")


def create(target: Target) -> None:
    """POST in JSON."""
    target.send("POST", target.all, target.wanted)


def create_in_yaml(target: Target) -> None:
    """POST in YAML."""
    target.send("POST", target.all, target.wanted, "application/yaml")


def create_in_protobuf(target: Target) -> None:
    """POST in protobuf."""
    _created_again(target, _PROTOBUF)


def create_in_cbor(target: Target) -> None:
    """POST in CBOR."""
    _created_again(target, _CBOR)


def create_with_generate_name(target: Target) -> None:
    """POST with `generateName`; the object that comes of it is looked for in the Namespace."""
    manifest = target.wanted
    manifest["metadata"]["generateName"] = manifest["metadata"].pop("name") + "-"
    target.send("POST", target.all, manifest)


def create_with_the_key_twice(target: Target) -> None:
    """POST in which `labels` and the key come twice, first harmless and then not, and the other way round."""
    whole, key, harmless = json.dumps(target.wanted), json.dumps(target.key), json.dumps(BEFORE)
    start = whole.index(key)
    value = '"true"'
    for pair in (f"{key}: null, {key}", f"{harmless}: {value}, {key}"):
        target.send_bytes("POST", target.all, (whole[:start] + pair + whole[start + len(key) :]).encode())
    before = json.dumps(target.before)
    labels = before.rfind('"labels"', 0, before.index(harmless))
    if labels < 0:  # a selector's
        return
    doubled = before[:labels] + f'"labels": {{{key}: {value}}}, ' + before[labels:]
    target.send_bytes("POST", target.all, doubled.encode())


def create_with_nulls(target: Target) -> None:
    """POST with fields that are null instead of absent."""
    manifest = target.wanted
    manifest["metadata"] |= {"annotations": None, "ownerReferences": None, "finalizers": None, "managedFields": None}
    target.send("POST", target.all, {**manifest, "status": None})


def create_a_huge_one(target: Target) -> None:
    """POST with 15,000 other labels, and with 5,000 of 247 characters, so that match conditions exceed their cost."""
    if target.kind.resource.kind not in _PADDED:
        return
    for count, length in _PADDING:
        manifest = target.wanted
        labels = _padding(count, length)
        manifest["metadata"]["labels"] = {**labels, **manifest["metadata"].get("labels", {})}
        target.send("POST", target.all, manifest)
        for holder in _holders(manifest, target.key):
            holder["labels"] = {**labels, **holder["labels"]}
        target.send("POST", target.all, manifest)


def create_in_another_version(target: Target) -> None:
    """POST, PUT and PATCH in every other version that is served."""
    for version in target.kind.versions:
        manifest = {**target.wanted, "apiVersion": version.api_version}
        everything = version.path(manifest["metadata"].get("namespace", ""))
        target.send("POST", everything, manifest)
        target.send("PATCH", f"{everything}/{target.name}", manifest, _MERGE)


def apply(target: Target) -> None:
    """Server-side apply of an object that does not exist, and of one that does, with and without force."""
    for force in ("false", "true"):
        target.send("PATCH", f"{target.one}?fieldManager=alice&force={force}", target.wanted, _APPLY)
    target.make()
    target.send("PATCH", f"{target.one}?fieldManager=bob&force=true", target.wanted, _APPLY)


def put(target: Target) -> None:
    """PUT in JSON, over an object and in the place of none."""
    target.send("PUT", target.one, target.wanted)
    if target.make():
        target.send("PUT", target.one, {**target.stored(), **_grafted(target)})


def put_in_protobuf(target: Target) -> None:
    """PUT in protobuf."""
    _put_again(target, _PROTOBUF)


def put_in_cbor(target: Target) -> None:
    """PUT in CBOR."""
    _put_again(target, _CBOR)


def merge_patch(target: Target) -> None:
    """A merge patch with the whole object, and one with the label alone."""
    if target.make():
        target.send("PATCH", target.one, target.wanted, _MERGE)
        target.send("PATCH", target.one, {"metadata": {"labels": {target.key: "true"}}}, _MERGE)


def strategic_merge_patch(target: Target) -> None:
    """A strategic merge patch, plain and with `$patch: replace`."""
    if target.make():
        target.send("PATCH", target.one, target.wanted, _STRATEGIC)
        target.send("PATCH", target.one, {**target.wanted, "$patch": "replace"}, _STRATEGIC)


def json_patch(target: Target) -> None:
    """JSON patches: `add` beside the harmless label, `move` and `copy` of it, `replace` of the whole object."""
    if not target.make():
        return
    new, old = (_pointers(target.wanted, target.key), _pointers(target.before, BEFORE))
    operations: list[Any] = []
    for to, origin in zip(new, old, strict=True):
        operations += [{"op": "add", "path": to, "value": "true"}, {"op": "copy", "from": origin, "path": to}]
        operations.append({"op": "move", "from": origin, "path": to})
    for operation in operations:
        target.send("PATCH", target.one, [operation], _JSON_PATCH)
    target.send("PATCH", target.one, [{"op": "replace", "path": "", "value": _grafted(target)}], _JSON_PATCH)


def subresources(target: Target) -> None:
    """PUT, POST and all patches through every subresource that the API server has for the kind."""
    if not target.make():
        return
    for name in target.kind.subresources:
        path = f"{target.one}/{name}"
        target.send("PUT", path, {**target.stored(), **_grafted(target)})
        target.send("POST", path, {**target.wanted, "kind": name.capitalize()})
        target.send("PATCH", path, target.wanted, _MERGE)
        target.send("PATCH", path, target.wanted, _STRATEGIC)
        target.send("PATCH", f"{path}?fieldManager=carol&force=true", target.wanted, _APPLY)


WAYS: tuple[Callable[[Target], None], ...] = (
    create, create_in_yaml, create_in_protobuf, create_in_cbor, create_with_generate_name, create_with_the_key_twice,
    create_with_nulls, create_a_huge_one, create_in_another_version, apply, put, put_in_protobuf, put_in_cbor,
    merge_patch, strategic_merge_patch, json_patch, subresources,
)  # fmt: skip


def _created_again(target: Target, media_type: str) -> None:
    encoded = target.encoded_anew(media_type)
    if encoded.done:
        target.send_bytes("POST", target.all, encoded.content, media_type)


def _put_again(target: Target, media_type: str) -> None:
    if target.make():
        encoded = target.encoded(media_type)
        if encoded.done:
            target.send_bytes("PUT", target.one, encoded.content, media_type)


def _padding(count: int, length: int) -> dict[str, str]:
    """Labels with keys of a length, or as short as they can be."""
    prefix = ".".join(["x" * 60] * 3 + ["x"]) if length > 1 else "x"
    return {f"{prefix}/{number:0{max(1, length - len(prefix) - 1)}}": "" for number in range(count)}


def _grafted(target: Target) -> Any:
    """The stored object with the key in the place of the harmless one, as alice would send it back."""
    return json.loads(json.dumps(target.stored()).replace(BEFORE, target.key))


def _holders(value: Any, key: str) -> Iterator[dict[str, Any]]:
    """The maps whose `labels` have a key."""
    if isinstance(value, dict):
        if isinstance(value.get("labels"), dict) and key in value["labels"]:
            yield value
        for inner in value.values():
            yield from _holders(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _holders(inner, key)


def _pointers(value: Any, key: str, path: str = "") -> list[str]:
    """The JSON pointers to a key."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = []
    for step, inner in items:
        here = f"{path}/{str(step).replace('~', '~0').replace('/', '~1')}"
        found += [here] if step == key else _pointers(inner, key, here)
    return found


_COUNT = 3  # of those that come together, drawn by a seed: `SEED=7 pytest tests/cluster/test_bypass.py`
_COMBINED = tuple(way for way in WAYS if way is not create_a_huge_one)  # which takes seconds
# A kind that nobody knows, or the garbage collector would delete the object.
_OWNER = {"apiVersion": "example.org/v1", "kind": "None", "name": "x", "uid": "x", "controller": True}
_METADATA: tuple[Manifest, ...] = (
    {"annotations": None, "finalizers": None},
    {"annotations": {MIRROR_ANNOTATION: "x"}},
    {"ownerReferences": [_OWNER]},
    {"managedFields": [{}]},
    {"creationTimestamp": "2020-01-01T00:00:00Z", "generation": 7, "selfLink": "/x", "uid": None},
)


def combinations(target: Target) -> None:
    """Three of these ways in turn, drawn by a seed, for any version of the object, with null and forged metadata."""
    random = Random(f"{os.environ.get('SEED', '1')} {target.name}")  # noqa: S311 - the same ones again is the point
    for way in random.sample(_COMBINED, _COUNT):
        metadata = {key: value for part in _METADATA if random.random() < 1 / 3 for key, value in part.items()}
        way(target.changed(random.choice((target.kind.resource, *target.kind.versions)), metadata))


ALL: tuple[Callable[[Target], None], ...] = (*WAYS, combinations)
