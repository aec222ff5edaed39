"""Requests to the API server, through the client library's configuration, credentials and connections.

Answers are read as raw bytes: the library's models would cost more memory than the objects, and of those little is kept.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import yaml
from kubernetes.aio import client, config
from kubernetes.aio.config.config_exception import ConfigException
from msgspec import Struct

JSON = "application/json"
# Objects reduced to their metadata, by the API server itself.
METADATA_ONLY = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"


class ClusterError(Exception):
    """A request that the API server did not grant, or that did not reach it. status: the HTTP status, 0 where none came."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class _Status(Struct):
    message: str = ""


class Api:
    """A connection to one API server."""

    def __init__(self, api_client: client.ApiClient) -> None:
        self._client = api_client

    @asynccontextmanager
    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: Any = None,
        accept: str = JSON,
        content_type: str = JSON,
        seconds: float = 30.0,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer whose body is still to be read. Raises ClusterError for anything but success."""
        what = f"{method} {path}"
        headers = {"Accept": accept, "Content-Type": content_type}
        try:
            _, url, headers, body, _ = await self._client.param_serialize(
                method, path, query_params=list((query or {}).items()), header_params=headers, body=body,
                auth_settings=["BearerToken"],
            )  # fmt: skip
            answer = await self._client.call_api(method, url, headers, body, _request_timeout=seconds)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ClusterError(f"{what}: the API server did not answer: {_words(error)}") from error
        try:
            if answer.response.status >= 400:
                raise ClusterError(f"{what}: {await _reason(answer.response)}", answer.response.status)
            try:
                yield answer.response
            except (aiohttp.ClientError, TimeoutError) as error:
                raise ClusterError(f"{what}: the connection broke: {_words(error)}") from error
        finally:
            answer.response.close()

    async def read(self, path: str, query: Mapping[str, str] | None = None, **options: Any) -> bytes:
        """The body of a GET. Raises ClusterError."""
        async with self.request("GET", path, query, **options) as answer:
            return await answer.read()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


async def connect(kubeconfig: str | None, in_cluster: bool) -> Api:  # noqa: FBT001 - two settings, as configured
    """The API server of a kubeconfig's current context, or of the cluster in which the process runs.

    Nothing is sent yet. Raises ClusterError where there is no such configuration.
    """
    configuration = client.Configuration()
    try:
        if in_cluster:
            config.load_incluster_config(client_configuration=configuration)
        else:
            await config.load_kube_config(kubeconfig, client_configuration=configuration, persist_config=False)
    except (ConfigException, OSError, yaml.YAMLError, ValueError) as error:
        where = "the Pod's service account" if in_cluster else f"kubeconfig {kubeconfig or 'at its usual place'}"
        raise ClusterError(f"{where} cannot be used: {_words(error)}") from error
    return Api(client.ApiClient(configuration))


async def _reason(answer: aiohttp.ClientResponse) -> str:
    """The API server's own words, which name the verb and resource where a right is missing."""
    body = await answer.read()
    try:
        message = msgspec.json.decode(body, type=_Status).message
    except msgspec.MsgspecError:
        message = ""
    return f"{answer.status} {message or answer.reason}"


def _words(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
