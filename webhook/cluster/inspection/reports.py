"""What an audit writes: reports that changed, Events on workloads, and the record of what it did.

A report of others is neither listed, written nor removed: ours have a label, and a field manager of our own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct, field, structs

from policies.engine.request import JsonObject, mapping, mappings
from webhook.audit.finding import WHOLE, AuditError, Part, Record, Scope, newest
from webhook.audit.reports import (
    CONTENT,
    FORMS,
    LABEL,
    SOURCE,
    Form,
    Known,
    Store,
    name,
    notice,
    report,
)
from webhook.cluster.api.call import ANSWER_SECONDS, ApiClient, Call, merge, resource_path, send
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.discovery import ServedResource
from webhook.cluster.api.errors import ApiError, ClusterError
from webhook.cluster.api.events import RIGHT, Events, Subject
from webhook.cluster.inspection.listing import Lister


class Place(NamedTuple):
    """The ConfigMap."""

    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Its path at the API server."""
        return resource_path("v1", "configmaps", self.namespace, self.name)

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
        await lister.answer(merge(place.path, body, ANSWER_SECONDS))


async def read(api: ApiClient, place: Place) -> Audits:
    """What audits have left. Raises ClusterError."""
    with _there(place):
        found = await send(api, Call("GET", place.path))
    try:
        since = datetime.fromisoformat(mapping(found, "metadata").get("creationTimestamp", ""))
        return Audits(since.timestamp(), newest(mapping(found, "data")))
    except (ValueError, AuditError) as error:
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


MOST: Final = 100
"""Events that a run tries to write at most. A first run may find something in every workload of a cluster."""
SHARE: Final = 20
"""Those in one Namespace at most, so that no tenant takes all places."""


class Told(Struct):
    """How many Events were written, were left out as too many, and failed."""

    written: int = 0
    omitted: int = 0
    failed: int = 0


class FindingEvents:
    """The Events of a run. on: whether there are any. problems: why they were not written, a line for all."""

    def __init__(self, lister: Lister, clock: Clock | None = None, *, on: bool = True) -> None:
        self.told = Told()
        self.problems: list[str] = []
        self._events = Events(lister.api, clock, lister.answer)
        self._on = on
        self._room = MOST
        self._places: Counter[str] = Counter()

    async def tell(self, scope: Scope, text: str) -> None:
        """Write an Event on the object of a report, unless the same is said there already. Raises UnreachableError.

        After one that fails there are none in its Namespace, and none at all if the API server itself fails.
        """
        # An Event about an Event would be judged by the next run, which would write an Event about it.
        if not self._on or not text or scope.kind == "Event":
            return
        if not self._room or self._places[scope.namespace] >= SHARE:
            self.told.omitted += 1
            return
        self._room -= 1
        self._places[scope.namespace] += 1
        about = Subject(**structs.asdict(scope))
        try:
            self.told.written += await self._events.write(about, "WouldBeRefused", text, occasion=text)
        except ApiError as error:
            if error.leaving:
                return
            self.told.failed += 1
            if not self.problems:
                self.problems.append(f"could not write Events: {error.lacking(RIGHT)}")
            self._places[scope.namespace] = SHARE
            if error.status >= 500:
                self._room = 0


MANAGER: Final = "cks-admission-audit"
"""The field manager of our reports."""
_APPLY: Final = "application/apply-patch+yaml"
_CONFLICT, _TOO_LARGE, _INVALID = 409, 413, 422


class Written(Struct):
    """How many reports were written, needed no writing, and were removed.

    refused: why others were not, a line each. told: the Events about those that were written.
    """

    written: int = 0
    unchanged: int = 0
    removed: int = 0
    refused: list[str] = []
    told: Told = field(default_factory=Told)


class Kinds(NamedTuple):
    """The kinds of a form that a cluster serves: for what is in Namespaces, and for what is in none."""

    form: Form
    namespaced: ServedResource
    cluster_wide: ServedResource

    def of(self, namespace: str) -> ServedResource:
        """The kind of the reports in a Namespace, or of those in none."""
        return self.namespaced if namespace else self.cluster_wide


def kinds(served: Sequence[ServedResource]) -> tuple[Kinds, ...]:
    """The kinds that a cluster has, first those to write. Raises AuditError if there are none."""
    by_name = {(one.api_version, one.resource.resource): one for one in served}
    found = []
    for form in FORMS:
        both = [by_name.get((form.api_version, plural)) for plural in (form.plural, form.cluster_plural)]
        found += [Kinds(form, *filter(None, both))] if all(both) else []
    if not found:
        names = " nor ".join(form.api_version for form in FORMS)
        hint = "install the CustomResourceDefinitions of one of them, see https://github.com/openreports/reports-api"
        raise AuditError(f"-o reports: the cluster has neither {names}; {hint}")
    return tuple(found)


class Reports:
    """The reports of a cluster, or of a part of it. namespaces: those that were audited, empty for all.

    notices: by which people are told of reports that are written.
    """

    def __init__(
        self,
        lister: Lister,
        kinds: Sequence[Kinds],
        notices: FindingEvents,
        part: Part = WHOLE,
        namespaces: Sequence[str] = (),
    ) -> None:
        self._lister = lister
        self._kinds = {chosen.form.group: chosen for chosen in kinds}
        self._written = kinds[0].form
        self._part = part
        self._namespaces = tuple(dict.fromkeys(namespaces))
        self._notices = notices

    async def write(self, store: Store, *, complete: bool) -> Written:
        """Write what was found. complete: whether all was judged; else no report is removed. Raises ClusterError."""
        done = Written(told=self._notices.told)
        async for known in self._ours():
            store.note(known)
        for scope, findings in store.workloads():
            content = report(self._written, scope, findings, datetime.now(UTC))
            before = store.take(self._written.group, scope.namespace, name(scope))
            if before is not None and before.content == content["metadata"]["annotations"][CONTENT]:
                done.unchanged += 1
            else:
                await self._apply(scope, content, done, ours=before is not None)
        for known in store.left_over() if complete else ():
            path = self._kinds[known.api].of(known.namespace).path(known.namespace, known.name)
            try:
                await self._lister.answer(Call("DELETE", path, body={"preconditions": {"uid": known.uid}}))
            except ApiError as error:
                if error.status not in (404, _CONFLICT):  # else it is gone with its workload, or another is there
                    raise
            done.removed += 1
        return done

    async def _ours(self) -> AsyncIterator[Known]:
        """Our reports in all forms: after a change to another form those of the first go."""
        for group, chosen in self._kinds.items():
            lists = [(chosen.namespaced, namespace) for namespace in self._namespaces or ("",)]
            lists += [] if self._namespaces else [(chosen.cluster_wide, "")]
            for resource, namespace in lists:
                labels = f"{LABEL}={SOURCE}"
                async for kept in self._lister.objects(resource, namespace, metadata=True, labels=labels):
                    metadata = mapping(kept, "metadata")
                    # A report is in the part of its Namespace, or of the object in none that it is about.
                    place = metadata.get("namespace") or (metadata.get("ownerReferences") or [{}])[0].get("name")
                    fields = mappings(metadata, "managedFields")
                    writers = [(entry.get("manager"), entry.get("operation")) for entry in fields]
                    if (MANAGER, "Apply") in writers and self._part.has(str(place)):
                        content = mapping(metadata, "annotations").get(CONTENT)
                        yield Known(
                            group,
                            str(metadata.get("namespace") or ""),
                            str(metadata["name"]),
                            str(metadata["uid"]),
                            str(content),
                        )

    async def _apply(self, scope: Scope, content: JsonObject, done: Written, *, ours: bool) -> None:
        """Write a report. ours: whether it is there; else a report of others that has its name stays as it is."""
        path = self._kinds[self._written.group].of(scope.namespace).path(scope.namespace, name(scope))
        query = (("fieldManager", MANAGER), ("force", "true" if ours else "false"))
        try:
            await self._lister.answer(Call("PATCH", path, query, content_type=_APPLY, body=content))
        except ApiError as error:
            if error.status in (_CONFLICT, _TOO_LARGE, _INVALID):
                done.refused.append(f"{scope.kind} {scope.name}: no report: {error}")
            elif not error.leaving:
                raise
        else:
            done.written += 1
            await self._notices.tell(scope, notice(self._written, scope, content))
