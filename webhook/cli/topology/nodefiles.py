"""Nodes, Pods and workloads in files, as `kubectl get nodes,pods -A -o json` prints them."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from policies.engine.request import JsonObject
from policies.selectors import pool
from policies.topology.annotation import TOPOLOGY
from policies.topology.gang.gang import GangKey
from policies.topology.gang.membership import identity
from policies.topology.nodes.manifest import NodeManifest, PodManifest
from policies.topology.nodes.requests import allocatable
from policies.topology.placer.root import KINDS as ROOT_KINDS
from webhook.cli.exits import InputError, reading
from webhook.files import manifest
from webhook.files.manifest import ManifestError
from webhook.files.yamlfile import FileError

HOW = "kubectl get nodes,pods -A -o json"
"""The command that prints what is read here."""

_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class Objects(NamedTuple):
    """What the Nodes of a cluster are and hold. pods: None if not known.

    placed: the Pods with a placement as JSON, by namespace and name. workloads: those with a placement. seconds: when
    it was so, since the epoch; None if not known. coming: the labels of Nodes that pools would add.
    """

    nodes: tuple[NodeManifest, ...]
    pods: tuple[PodManifest, ...] | None = None
    placed: Mapping[tuple[str, str], JsonObject] = {}
    workloads: tuple[JsonObject, ...] = ()
    seconds: float | None = None
    coming: tuple[Mapping[str, str], ...] = ()


class _Head(Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


class _List(_Head, rename="camel"):
    items: list[msgspec.Raw] | None = None


Content = msgspec.Raw | JsonObject
_Read = tuple[NodeManifest | PodManifest | None, Content]
_LIST = msgspec.json.Decoder(_List)
_HEAD = msgspec.json.Decoder(_Head)
_KINDS: dict[str, type[NodeManifest | PodManifest]] = {"Node": NodeManifest, "Pod": PodManifest}
# What every Node has. Where a file leaves it out, it was cut down by hand, and this does not limit its Pods.
_PLENTY: dict[str, str | int | float] = {"cpu": "1M", "memory": "1Pi", "pods": "1k"}
_MENTION = TOPOLOGY.encode()
_MARKS = (_MENTION, f'"{pool.KIND}"'.encode())


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the garbage collector, which looks through hundreds of thousands of new objects again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@uncollected()
def read(paths: Sequence[str], stdin: bytes = b"") -> Objects:
    """The objects in files, in directories and, for `-`, in the text of standard input.

    Objects of other kinds are passed over unless they have a placement, or are pools of Nodes.

    Raises InputError.
    """
    # What stands in two files is one object.
    nodes: dict[str, NodeManifest] = {}
    pods: dict[tuple[str, str], PodManifest] = {}
    placed: dict[tuple[str, str], JsonObject] = {}
    workloads: dict[GangKey, JsonObject] = {}
    coming: list[Mapping[str, str]] = []
    with reading(FileError, ManifestError):
        for name in (name for path in paths for name in ([path] if path == "-" else manifest.given(path))):
            text = stdin if name == "-" else Path(name).read_bytes()
            for item, content in _quickly(text) or _carefully(name, text):
                if isinstance(item, NodeManifest):
                    nodes[item.metadata.name] = item
                elif isinstance(item, PodManifest):
                    pods[item.key] = item
                    if (pod := _placed(content)) is not None:
                        placed[item.key] = pod
                elif isinstance(content, dict) and (labels := pool.labels(content)):
                    coming += labels
                elif isinstance(content, dict):
                    workloads[identity(content)] = content
    if not nodes:
        raise InputError(f"{', '.join(paths)}: no Nodes found; {HOW} prints them with their Pods")
    for node in nodes.values():
        node.status.allocatable = _PLENTY | (node.status.allocatable or {})
    manifests = tuple(pods.values()) or None
    return Objects(tuple(nodes.values()), manifests, placed, tuple(workloads.values()), None, tuple(coming))


def _quickly(text: bytes) -> list[_Read] | None:
    """What is in JSON; None for anything else, and where something is wrong with it.

    A cluster's Pods come to some hundred megabytes, for which YAML would take minutes.
    """
    try:
        whole = _LIST.decode(text)
        is_list = whole.kind.endswith("List")
        items = (whole.items or []) if is_list else [msgspec.Raw(text)]
        objects: list[_Read] = []
        for item in items:
            # Items of a NodeList do not say what they are.
            kind = _KINDS.get(_HEAD.decode(item).kind or whole.kind.removesuffix("List"))
            if kind is not None:
                objects.append((_checked(msgspec.json.decode(item, type=kind)), item))
            elif any(mark in bytes(item) for mark in _MARKS):
                objects += _counting(msgspec.json.decode(item))
    except _UNREADABLE:
        return None
    return objects


def _carefully(name: str, text: bytes) -> Iterator[_Read]:
    """What is in YAML or JSON, with the line of what is wrong. Raises InputError, FileError and ManifestError."""
    for written in manifest.read(["-"], text) if name == "-" else manifest.read([name]):
        kind = _KINDS.get(written.object["kind"]) if written.object["apiVersion"] == "v1" else None
        if kind is None:
            yield from _counting(written.object)
            continue
        try:
            yield _checked(msgspec.convert(written.object, kind)), written.object
        except _UNREADABLE as error:
            raise InputError(f"{written.where}: {_called(written.object)} cannot be read: {error}") from None


def _counting(obj: JsonObject) -> list[_Read]:
    """The object, if it is a workload that says how many Pods start together, or a pool of Nodes."""
    key = identity(obj)
    return [(None, obj)] if (key.group, key.kind) in ROOT_KINDS or pool.labels(obj) else []


def _placed(content: Content) -> JsonObject | None:
    """A Pod with a placement as JSON; None for others."""
    if isinstance(content, msgspec.Raw):
        pod: JsonObject | None = msgspec.json.decode(content) if _MENTION in bytes(content) else None
        return pod
    annotations = (content.get("metadata") or {}).get("annotations") or {}
    return content if TOPOLOGY in annotations else None


def _checked(item: NodeManifest | PodManifest) -> NodeManifest | PodManifest:
    """Raises ValueError for an amount that is malformed."""
    if isinstance(item, NodeManifest):
        _check(tuple((item.status.allocatable or {}).items()))
        return item
    for container in (*(item.spec.containers or ()), *(item.spec.init_containers or ())):
        if container.resources is not None:
            _check(tuple((container.resources.limits or {}).items()))
            _check(tuple((container.resources.requests or {}).items()))
    return item


@lru_cache
def _check(quantities: tuple[tuple[str, str | int | float], ...]) -> None:
    """Raises ValueError for an amount that is malformed. Most Nodes and Pods of a cluster have the same ones."""
    allocatable(dict(quantities))


def _called(obj: dict[str, Any]) -> str:
    name = (obj.get("metadata") or {}).get("name")
    return f"{obj['kind']} {name}" if isinstance(name, str) else obj["kind"]
