"""The ConfigMap in which audits leave what they did, each part its own entry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import Struct

from webhook.audit.record import Record, RecordError, newest
from webhook.cluster.api.call import Call, fetch
from webhook.cluster.api.errors import ApiError, ClusterError
from webhook.cluster.api.wire import UNREADABLE
from webhook.cluster.inspection.listing import Lister

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

_MERGE: Final = "application/merge-patch+json"


class _Metadata(Struct, rename="camel"):
    creation_timestamp: datetime


class _ConfigMap(Struct):
    metadata: _Metadata
    data: dict[str, str] | None = None


_CONFIG_MAP: Final = msgspec.json.Decoder(_ConfigMap)


class Place(NamedTuple):
    """The ConfigMap."""

    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Its path at the API server."""
        return f"/api/v1/namespaces/{quote(self.namespace, safe='')}/configmaps/{quote(self.name, safe='')}"

    def __str__(self) -> str:
        return f"ConfigMap {self.namespace}/{self.name}"


class Audits(NamedTuple):
    """The newest audit, part by part; none before the first. since: when it became possible, in Unix time."""

    since: float
    records: list[Record]


async def leave(lister: Lister, place: Place, record: Record) -> None:
    """Put a record into its ConfigMap, which must be there. Raises ClusterError."""
    body = {"data": {record.key: msgspec.json.encode(record).decode()}}
    with _there(place):
        await lister.answer(Call("PATCH", place.path, content_type=_MERGE, body=body))


async def read(api: ApiClient, place: Place) -> Audits:
    """What audits have left. Raises ClusterError."""
    with _there(place):
        body = await fetch(api, Call("GET", place.path))
    try:
        found = _CONFIG_MAP.decode(body)
        return Audits(found.metadata.creation_timestamp.timestamp(), newest(found.data or {}))
    except (*UNREADABLE, RecordError) as error:
        raise ClusterError(f"{place}: {error}") from error


@contextmanager
def _there(place: Place) -> Iterator[None]:
    """Say what to do about a ConfigMap that is not there."""
    try:
        yield
    except ApiError as error:
        if error.status != 404:
            raise
        raise ClusterError(f"{place} is not there: make it, empty, or leave audit.record empty") from error
