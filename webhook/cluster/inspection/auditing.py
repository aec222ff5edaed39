"""An audit of a live cluster: its rules and facts, what it lists, and its objects one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec import Struct, field, structs

from policies import labels
from policies.admissionpolicy.documents.reader import Loaded
from policies.engine.request import JsonObject, Owner, mapping, mappings
from policies.engine.rule import Rule, RuleSet
from policies.kubernetes.release import Release
from policies.kubernetes.spelling import closest
from webhook.audit.audit import Audit, audit_rules, creation
from webhook.audit.finding import WHOLE, AuditError, Judged, Owners, Part, Record, Scope, newest
from webhook.audit.reports import CONTENT, FORMS, LABEL, SOURCE, Form, Known, Store, name, notice, report
from webhook.cluster.api.call import (
    ANSWER_SECONDS,
    ApiClient,
    Call,
    Connection,
    Page,
    decoded,
    fetch,
    merge,
    page_of,
    resource_path,
    send,
)
from webhook.cluster.api.discovery import ServedResource, served
from webhook.cluster.api.errors import ApiError, Backoff, Clock, ClusterError, UnreachableError
from webhook.cluster.api.events import RIGHT, Events, Subject
from webhook.cluster.facts.facts import ClusterFacts
from webhook.cluster.facts.workloads import ACCEPT
from webhook.cluster.watches.cluster import follow
from webhook.cluster.watches.policies import joined
from webhook.configuration import rules
from webhook.configuration.settings import Settings
from webhook.registration.resources import ADMISSION
from webhook.sources import policyset
from webhook.sources.policyset import Directories

PAGE_SIZE: Final = 200
"""Objects per request. A page of Nodes with their images has some 5 MB."""
_ATTEMPTS: Final = 8
_WHOLE: Final = "application/json"


class Lister:
    """Sends requests by `api`, so many in a second at most. When the API server asks for time, it gets it."""

    def __init__(self, api: ApiClient, qps: float, clock: Clock | None = None, size: int = PAGE_SIZE) -> None:
        self.api = api
        self._clock = clock or Clock()
        self._pause = 1 / qps
        self._next = 0.0
        self._size = size

    async def objects(
        self, resource: ServedResource, namespace: str = "", *, metadata: bool = False, labels: str = ""
    ) -> AsyncIterator[JsonObject]:
        """The objects of a resource, with apiVersion and kind. metadata: whether that is all that is read of them.

        The API server lists objects by their keys, so that a list whose token has expired goes on after the last one.
        labels: a selector. Raises ClusterError.
        """
        path = resource.path(namespace)
        token, after, skips = "", "", False
        while True:
            try:
                page = await self._page(path, token, ACCEPT if metadata else _WHOLE, labels=labels)
            except ApiError as error:
                if error.status != 410 or not token:
                    raise
                token, skips = error.more, bool(after)  # empty: from the beginning
                continue
            for raw in page.items or []:
                obj = {**decoded(raw, f"GET {path}"), "apiVersion": resource.api_version}
                # By this key the API server sorts objects of a kind.
                about = mapping(obj, "metadata")
                key = f"{about['namespace']}/{about.get('name')}" if about.get("namespace") else str(about.get("name"))
                if skips and key.encode() <= after.encode():
                    continue
                skips, after = False, key
                yield {**obj, "kind": resource.kind}
            token = page.metadata.continue_
            if not token:
                return

    async def count(self, resource: ServedResource, namespace: str = "") -> int:
        """How many objects there are, by a page of one. Raises ClusterError."""
        page = await self._page(resource.path(namespace), "", ACCEPT, size=1)
        return len(page.items or ()) + page.metadata.remaining_item_count

    async def metadata(self, resource: ServedResource, namespace: str, name: str) -> JsonObject | None:
        """The metadata of an object; None if it is not there or may not be read. Raises ClusterError."""
        path = resource.path(namespace, name)
        try:
            body = await self.answer(Call("GET", path, accept=ACCEPT.replace("MetadataList", "Metadata")))
        except ApiError as error:
            if error.status in (403, 404):
                return None
            raise
        return decoded(body, f"GET {path}")

    async def all(self, path: str) -> list[JsonObject]:
        """All objects of a short list, without apiVersion and kind. Raises ClusterError."""
        objects: list[JsonObject] = []
        token = ""
        while True:
            page = await self._page(path, token, _WHOLE)
            objects += [decoded(raw, f"GET {path}") for raw in page.items or ()]
            token = page.metadata.continue_
            if not token:
                return objects

    async def _page(self, path: str, token: str, accept: str, size: int = 0, labels: str = "") -> Page:
        more = (("continue", token), ("labelSelector", labels))
        query = (("limit", str(size or self._size)), *(pair for pair in more if pair[1]))
        return page_of(await self.answer(Call("GET", path, query, accept)), path)

    async def answer(self, call: Call) -> bytes:
        """The answer to a call. 429 is waited out; other failures of the API server are tried again a few times.

        Raises ClusterError.
        """
        backoff, failures = Backoff(self._clock), 0
        while True:
            now = self._clock.monotonic()
            wait, self._next = self._next - now, max(self._next, now) + self._pause
            if wait > 0:
                await self._clock.sleep(wait)
            try:
                return await fetch(self.api, call)
            except (ApiError, UnreachableError) as error:
                failures += error.status != 429
                if (0 < error.status < 500 and error.status != 429) or failures >= _ATTEMPTS:
                    raise
                await backoff.wait(error.retry_after)


VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")
"""The versions of mutating policies, the newest first: Kubernetes 1.36, 1.34 and 1.32."""


async def served_policies(
    read: Callable[[str], Awaitable[list[JsonObject]]], form: Literal["validating", "mutating"]
) -> tuple[str, list[JsonObject], list[JsonObject]]:
    """The newest version that is served, and its policies and bindings. read: lists a path. Raises ClusterError."""
    for version in VERSIONS:
        root = f"/apis/{ADMISSION}/{version}/{form}admissionpolic"
        try:
            return version, await read(f"{root}ies"), await read(f"{root}ybindings")
        except ApiError as error:
            if error.status != 404:
                raise
    return "", [], []


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


async def leave(lister: Lister, place: Place, record: Record) -> None:
    """Put a record into its ConfigMap, which must be there. Raises ClusterError."""
    body = {"data": {record.key: msgspec.json.encode(record).decode()}}
    with _there(place):
        await lister.answer(merge(place.path, body, ANSWER_SECONDS))


async def read(api: ApiClient, place: Place) -> tuple[float, list[Record]]:
    """Since when audits are possible, in Unix time, and the newest one, part by part. Raises ClusterError."""
    with _there(place):
        found = await send(api, Call("GET", place.path))
    try:
        since = datetime.fromisoformat(mapping(found, "metadata").get("creationTimestamp", ""))
        return since.timestamp(), newest(mapping(found, "data"))
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


class EventCounts(Struct):
    """How many Events were written, were left out as too many, and failed."""

    written: int = 0
    omitted: int = 0
    failed: int = 0


class FindingEvents:
    """The Events of a run. on: whether there are any. problems: why they were not written, a line for all."""

    def __init__(self, lister: Lister, clock: Clock | None = None, *, on: bool = True) -> None:
        self.counts = EventCounts()
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
            self.counts.omitted += 1
            return
        self._room -= 1
        self._places[scope.namespace] += 1
        about = Subject(**structs.asdict(scope))
        try:
            self.counts.written += await self._events.write(about, "WouldBeRefused", text, occasion=text)
        except ApiError as error:
            if error.leaving:
                return
            self.counts.failed += 1
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

    refused: why others were not, a line each. events: the Events about those that were written.
    """

    written: int = 0
    unchanged: int = 0
    removed: int = 0
    refused: list[str] = []
    events: EventCounts = field(default_factory=EventCounts)


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

    events: writes the Events about reports that are written.
    """

    def __init__(
        self,
        lister: Lister,
        kinds: Sequence[Kinds],
        events: FindingEvents,
        part: Part = WHOLE,
        namespaces: Sequence[str] = (),
    ) -> None:
        self._lister = lister
        self._kinds = {chosen.form.group: chosen for chosen in kinds}
        self._written = kinds[0].form
        self._part = part
        self._namespaces = tuple(dict.fromkeys(namespaces))
        self._events = events

    async def write(self, store: Store, *, complete: bool) -> Written:
        """Write what was found. complete: whether all was judged; else no report is removed. Raises ClusterError."""
        done = Written(events=self._events.counts)
        async for known in self._ours():
            store.note(known)
        for scope, findings in store.workloads():
            content = report(self._written, scope, findings, datetime.now(UTC))
            before = store.take(self._written.group, scope.namespace, name(scope))
            if before is not None and before.content == content["metadata"]["annotations"][CONTENT]:
                done.unchanged += 1
                continue
            # A report of others that has the name of one of ours that is not there stays as it is.
            path = self._kinds[self._written.group].of(scope.namespace).path(scope.namespace, name(scope))
            query = (("fieldManager", MANAGER), ("force", "false" if before is None else "true"))
            try:
                await self._lister.answer(Call("PATCH", path, query, content_type=_APPLY, body=content))
            except ApiError as error:
                if error.status in (_CONFLICT, _TOO_LARGE, _INVALID):
                    done.refused.append(f"{scope.kind} {scope.name}: no report: {error}")
                elif not error.leaving:
                    raise
            else:
                done.written += 1
                await self._events.tell(scope, notice(self._written, scope, content))
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


# Two names of the same objects; the first is the one that is listed.
_TWICE: Final = {("events.k8s.io", "events"): ("", "events")}


class Unit(Struct, frozen=True):
    """A list: a resource in a Namespace, empty for all. metadata: whether rules read nothing else."""

    resource: ServedResource
    namespace: str = ""
    metadata: bool = False

    @property
    def key(self) -> str:
        """Its path, which is its name."""
        return self.resource.path(self.namespace)


def units(
    served: Sequence[ServedResource],
    ruleset: RuleSet,
    workloads: Collection[tuple[str, str]],
    namespaces: Sequence[str] = (),
    kinds: Sequence[str] = (),
) -> list[Unit]:
    """The lists, Pods last.

    workloads: the kinds with more labels than their own. namespaces: those whose objects are asked for; empty for all,
    and for what is in none. kinds: such as `Pod`, `pods`, `Deployment.apps`, `pods.v1.`; empty for all. Raises
    AuditError.
    """
    chosen = {_family(resource): resource for resource in reversed(served) if _rules(ruleset, resource)}
    if kinds:
        chosen = _named(kinds, served, chosen)
    found = [
        Unit(
            resource,
            namespace,
            (resource.resource.group, resource.kind) not in workloads
            and all(rule.name == labels.RULE for rule in _rules(ruleset, resource)),
        )
        for resource in chosen.values()
        if resource.namespaced or not namespaces
        for namespace in (tuple(dict.fromkeys(namespaces)) or ("",))
    ]
    return sorted(found, key=lambda unit: (unit.resource.kind == "Pod", unit.key))


def _family(resource: ServedResource) -> tuple[str, str]:
    """What all versions of a resource share."""
    target = resource.resource
    return _TWICE.get((target.group, target.resource), (target.group, target.resource))


def _rules(ruleset: RuleSet, resource: ServedResource) -> tuple[Rule, ...]:
    return (*ruleset.select("mutate", resource), *ruleset.select("validate", resource))


def _named(
    kinds: Sequence[str], served: Sequence[ServedResource], chosen: Mapping[tuple[str, str], ServedResource]
) -> dict[tuple[str, str], ServedResource]:
    # How people call a resource, in lower case; the last is the only one that is no other's: `pods.v1.`.
    by_name: dict[str, set[tuple[str, str]]] = {}
    for resource in served:
        target = resource.resource
        plural, group = target.resource, f".{target.group}" if target.group else ""
        exactly = f"{plural}.{target.version}{group or '.'}"
        for called in (resource.kind, f"{resource.kind}{group}", plural, f"{plural}{group}", exactly):
            by_name.setdefault(called.lower(), set()).add(_family(resource))
    found: dict[tuple[str, str], ServedResource] = {}
    for kind in kinds:
        families = by_name.get(kind.lower(), set())
        if not families:
            known = sorted({resource.kind for resource in served})
            meant = closest(kind, known)
            hint = f"; did you mean {meant}?" if meant else ""
            raise AuditError(f"--kind {kind}: the cluster has no kind of this name that can be created{hint}")
        found |= {family: chosen[family] for family in families & chosen.keys()}
    if not found:
        raise AuditError(f"--kind {', '.join(kinds)}: no rule or policy is about it")
    return found


_SYNC_SECONDS: Final = 30.0


class ClusterAudit(NamedTuple):
    """An audit of a cluster, or of a part of it.

    served: what it has. doubts: what cannot be judged as it should be, a line each.
    """

    audit: Audit
    lister: Lister
    served: tuple[ServedResource, ...]
    owners: Owners
    doubts: tuple[str, ...] = ()
    part: Part = WHOLE

    async def judged(self, unit: Unit) -> AsyncIterator[Judged]:
        """The objects of a list, judged. Raises ClusterError."""
        resource = unit.resource
        async for obj in self.lister.objects(resource, unit.namespace, metadata=unit.metadata):
            self.owners.remember(obj)
            request = creation(obj, resource.resource, namespaced=resource.namespaced)
            if self.part.judges(request):
                yield await self.audit.judged(request)


@asynccontextmanager
async def auditing(api: Connection, settings: Settings, qps: float, part: Part = WHOLE) -> AsyncIterator[ClusterAudit]:
    """An audit by the settings and by what the cluster has.

    qps: lists and look-ups of owners per second. Raises SettingsError and ClusterError.
    """
    maps_in = settings.cluster.namespace if settings.policies.config_maps else ""
    facts = ClusterFacts(
        api,
        watch_nodes=rules.follows_nodes(settings),
        watch_pools=settings.selectors.action != "off",
        watch_topologies=rules.follows_topologies(settings),
        workloads=rules.topology_options(settings).workloads,
    )
    async with follow(facts, maps_in=maps_in, release=settings.policies.release, seconds=_SYNC_SECONDS) as cluster:
        lister = Lister(api, qps)
        resources = tuple(await served(lister.answer))
        by_kind = {(resource.api_version, resource.kind): resource for resource in resources}

        async def read(owner: Owner, namespace: str) -> JsonObject | None:
            resource = by_kind.get((owner.api_version, owner.kind))
            return None if resource is None else await lister.metadata(resource, namespace, owner.name)

        owners = Owners(read)
        # A source that cannot be used is a doubt.
        release = cluster.release.current
        units = [*await Directories(settings.policies.directories).units(release)]
        if cluster.maps is not None:
            data = {name: policy_map.data for name, policy_map in cluster.maps.known.items()}
            units += policyset.configmap_units(cluster.maps.namespace, data, release)
        contents, today = await policyset.read(units, release), datetime.now(UTC).date()
        policies = policyset.updated(policyset.EMPTY, contents, today, rules.reserved(), release)
        refused = [f"{source} is not judged: {why}" for source, why in policies.refused.items()]
        files, native = policies.files, await _natives(lister, settings, release)
        made = audit_rules(settings, files, native.loaded)
        await cluster.facts.parameters.follow(made.parameters)
        audit = Audit(made, cluster.facts.known, cluster.facts.read, owners)
        doubts = (*refused, *native.problems, *made.doubts, *cluster.unsynced())
        yield ClusterAudit(audit, lister, resources, owners, doubts, part)


async def _natives(lister: Lister, settings: Settings, release: Release) -> policyset.Native:
    if not settings.policies.native:
        return policyset.Native(loaded=Loaded())
    documents: dict[str, list[JsonObject]] = {}
    for form in ("validating", "mutating"):
        version, policies, bindings = await served_policies(lister.all, form)
        kind = f"{form.capitalize()}AdmissionPolicy"
        head = {"apiVersion": f"{ADMISSION}/{version}", "kind": kind}
        by_name = {policy["metadata"]["name"]: {**head, **policy} for policy in policies}
        documents |= {f"{kind} {name}": found for name, found in joined(by_name, bindings, head).items()}
    return await policyset.read_native(documents, release)
