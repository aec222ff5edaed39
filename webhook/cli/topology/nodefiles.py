"""Nodes and Pods in files, as `kubectl get nodes,pods -A -o json` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from policies.topology.nodes.machine import Machine, held, machines
from policies.topology.nodes.manifest import NodeManifest, PodManifest
from webhook.cli.exits import InputError, reading
from webhook.files import manifest
from webhook.files.manifest import ManifestError
from webhook.files.yamlfile import FileError

HOW = "kubectl get nodes,pods -A -o json"
"""The command that prints what is read here."""

_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class _Head(Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


class _List(_Head, rename="camel"):
    items: list[msgspec.Raw] | None = None


_LIST = msgspec.json.Decoder(_List)
_HEAD = msgspec.json.Decoder(_Head)
_KINDS: dict[str, type[NodeManifest | PodManifest]] = {"Node": NodeManifest, "Pod": PodManifest}


def read(paths: Sequence[str], accelerators: Sequence[str], stdin: bytes = b"") -> tuple[Machine, ...]:
    """The Nodes in files, in directories and, for `-`, in the text of standard input; Pods where there are any.

    Other objects are passed over. Raises InputError.
    """
    # What stands in two files is one object.
    nodes: dict[str, NodeManifest] = {}
    pods: dict[tuple[str, str], PodManifest] = {}
    with reading(FileError, ManifestError):
        for name in (name for path in paths for name in ([path] if path == "-" else manifest.given(path))):
            text = stdin if name == "-" else Path(name).read_bytes()
            for item in _quickly(text, accelerators) or _carefully(name, text, accelerators):
                if isinstance(item, NodeManifest):
                    nodes[item.metadata.name] = item
                else:
                    pods[item.metadata.namespace, item.metadata.name] = item
    if not nodes:
        raise InputError(f"{', '.join(paths)}: no Nodes found; {HOW} prints them with their Pods")
    return machines(nodes.values(), pods.values() or None, accelerators)


def _quickly(text: bytes, accelerators: Sequence[str]) -> list[NodeManifest | PodManifest] | None:
    """What is in JSON; None for anything else, and where something is wrong with it.

    A cluster's Pods come to some hundred megabytes, for which YAML would take minutes.
    """
    try:
        whole = _LIST.decode(text)
        is_list = whole.kind.endswith("List")
        items = (whole.items or []) if is_list else [msgspec.Raw(text)]
        objects = []
        for item in items:
            # Items of a NodeList do not say what they are.
            kind = _KINDS.get(_HEAD.decode(item).kind or whole.kind.removesuffix("List"))
            if kind is not None:
                objects.append(_checked(msgspec.json.decode(item, type=kind), accelerators))
    except _UNREADABLE:
        return None
    return objects


def _carefully(name: str, text: bytes, accelerators: Sequence[str]) -> Iterator[NodeManifest | PodManifest]:
    """What is in YAML or JSON, with the line of what is wrong. Raises InputError, FileError and ManifestError."""
    for written in manifest.read(["-"], text) if name == "-" else manifest.read([name]):
        kind = _KINDS.get(written.object["kind"]) if written.object["apiVersion"] == "v1" else None
        if kind is None:
            continue
        try:
            yield _checked(msgspec.convert(written.object, kind), accelerators)
        except _UNREADABLE as error:
            raise InputError(f"{written.where}: {_called(written.object)} cannot be read: {error}") from None


def _checked(item: NodeManifest | PodManifest, accelerators: Sequence[str]) -> NodeManifest | PodManifest:
    """Raises ValueError for a quantity that is no number of devices."""
    if isinstance(item, NodeManifest):
        machines([item], None, accelerators)
    else:
        held(item, accelerators)
    return item


def _called(obj: dict[str, Any]) -> str:
    name = (obj.get("metadata") or {}).get("name")
    return f"{obj['kind']} {name}" if isinstance(name, str) else obj["kind"]
