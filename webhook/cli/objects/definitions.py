"""CustomResourceDefinitions by whose schemas objects are judged: from files and from a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import click

from policies.engine.request import JsonObject
from webhook.cli.exits import InputError, ToolError, reading
from webhook.files import manifest
from webhook.files.manifest import ManifestError
from webhook.files.yamlfile import FileError

KIND = "CustomResourceDefinition"
_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class SchemaOptions(NamedTuple):
    """By which schemas objects are judged. mode: `strict` or `off`. crds: files and folders."""

    mode: str = "strict"
    crds: tuple[str, ...] = ()
    kubeconfig: str = ""

    def definitions(self) -> list[JsonObject]:
        """The CustomResourceDefinitions that are named. Raises InputError and ToolError."""
        return [*_of_files(self.crds), *(_of_cluster(self.kubeconfig) if self.kubeconfig else ())]


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say by which schemas objects are judged."""
    mode = click.option(
        "--schema",
        type=click.Choice(["strict", "off"]),
        default="strict",
        show_default=True,
        help="Whether objects are judged by the schemas of their kinds, as the API server does.",
    )
    crds = click.option(
        "--crds",
        multiple=True,
        metavar="FILE|DIR",
        help="CustomResourceDefinitions for custom resources, besides those among the objects; repeatable.",
    )
    kubeconfig = click.option(
        "--kubeconfig", default="", metavar="FILE", help="Cluster whose CustomResourceDefinitions are used."
    )
    return mode(crds(kubeconfig(command)))


def among(values: Iterable[Any]) -> Iterator[JsonObject]:
    """The CustomResourceDefinitions among decoded documents."""
    return (value for value in values if isinstance(value, dict) and value.get("kind") == KIND)


def _of_files(paths: Iterable[str]) -> Iterator[JsonObject]:
    """Raises InputError, also for a path without definitions: a warning of each object would not say why."""
    for path in paths:
        with reading(FileError, ManifestError):
            own = list(among(written.object for written in manifest.read([path])))
        if not own:
            raise InputError(f"--crds {path}: no {KIND} found")
        yield from own


def _of_cluster(kubeconfig: str) -> list[JsonObject]:
    """Raises ToolError."""
    from webhook.cluster.api.errors import ClusterError  # noqa: PLC0415 - most runs need no cluster

    try:
        return asyncio.run(_ask(kubeconfig))
    except ClusterError as error:
        raise ToolError(str(error)) from None


async def _ask(kubeconfig: str) -> list[JsonObject]:
    from webhook.cluster.api.client import connect  # noqa: PLC0415 - loads the client
    from webhook.cluster.inspection import reads  # noqa: PLC0415 - as above

    api = await connect(kubeconfig, False)  # noqa: FBT003 - as the function has it
    try:
        return await reads.several(api, _PATH)
    finally:
        await api.close()
