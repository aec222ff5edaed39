"""The files of a Pod: writes its volumes below a folder, as a kubelet writes them into a container."""

from __future__ import annotations

import base64
import os
import secrets
import shutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from cluster.manifests import Manifest

    Get = Callable[[str], Manifest]
    Token = Callable[[str, int], str]

Files = dict[str, bytes]


class MissingVolumeError(Exception):
    """A volume's ConfigMap, Secret or key is not there."""


def volumes(pod: Manifest, get: Get, token: Token) -> dict[str, Files | None]:
    """Return the files of each volume that has a content; None for one that is empty at first.

    get: reads an object of the Pod's Namespace, as "configmaps/NAME". token: a token for a service account by its name
    and its life in seconds.
    """
    return {volume["name"]: _content(volume, pod, get, token) for volume in pod["spec"].get("volumes", [])}


def write(root: Path, container: Mapping[str, Any], contents: Mapping[str, Files | None]) -> None:
    """Write a container's volumes below a folder that stands for its root; readers see a volume change at once."""
    for mount in container.get("volumeMounts", []):
        target = root / mount["mountPath"].lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        files = contents[mount["name"]]
        if files is not None:
            _swap(target, files)


def _content(volume: Mapping[str, Any], pod: Manifest, get: Get, token: Token) -> Files | None:
    if "emptyDir" in volume:
        return None
    if "projected" in volume:
        found: Files = {}
        for source in volume["projected"]["sources"]:
            found |= dict(_source(source, pod, get, token))
        return found
    if "secret" in volume:
        chosen = {**volume["secret"], "name": volume["secret"]["secretName"]}
        try:
            return dict(_source({"secret": chosen}, pod, get, token))
        except MissingVolumeError:
            if not chosen.get("optional"):
                raise
            return {}
    return dict(_source({"configMap": volume["configMap"]}, pod, get, token))


def _source(source: Mapping[str, Any], pod: Manifest, get: Get, token: Token) -> Iterator[tuple[str, bytes]]:
    ((kind, what),) = source.items()
    match kind:
        case "configMap":
            data = get(f"configmaps/{what['name']}").get("data", {})
            yield from _chosen(what, {key: text.encode() for key, text in data.items()})
        case "secret":
            data = get(f"secrets/{what['name']}").get("data", {})
            yield from _chosen(what, {key: base64.b64decode(text) for key, text in data.items()})
        case "serviceAccountToken":
            yield what["path"], token(pod["spec"]["serviceAccountName"], what["expirationSeconds"]).encode()
        case "downwardAPI":
            for item in what["items"]:
                yield item["path"], field(pod, item["fieldRef"]["fieldPath"]).encode()
        case _:
            raise ValueError(f"no kubelet here knows a volume source {kind}")


def _chosen(what: Mapping[str, Any], data: Files) -> Iterator[tuple[str, bytes]]:
    items = what.get("items") or [{"key": key, "path": key} for key in data]
    for item in items:
        if item["key"] in data:
            yield item["path"], data[item["key"]]
        elif not what.get("optional"):
            raise MissingVolumeError(f"{what['name']} has no {item['key']}")


def field(pod: Manifest, path: str) -> str:
    """Return a field of a Pod as the downward API has it, such as metadata.name."""
    found: Any = pod
    for step in path.split("."):
        found = found[step]
    return str(found)


def _swap(target: Path, files: Files) -> None:
    """Replace all files of a volume at once: names are links into a folder behind one link, which is exchanged."""
    current = target / "..data"
    known = current.resolve()
    if current.exists() and {path.name: path.read_bytes() for path in known.iterdir()} == files:
        return
    version = target / f"..{secrets.token_hex(4)}"
    version.mkdir()
    for name, content in files.items():
        (version / name).write_bytes(content)
    new = target / "..data_tmp"
    new.symlink_to(version.name)
    os.replace(new, current)  # noqa: PTH105 - of links, which Path.replace would do as well, and say less clearly
    for name in files:
        if not (target / name).is_symlink():
            (target / name).symlink_to(f"..data/{name}")
    for path in list(target.iterdir()):
        if path.is_symlink() and not path.name.startswith("..") and path.name not in files:
            path.unlink()
    if known != current:
        shutil.rmtree(known, ignore_errors=True)
