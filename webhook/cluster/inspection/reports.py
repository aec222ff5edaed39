"""Writes the reports of an audit: those that changed, and takes away those that have nothing to tell any more.

A report of others is neither listed, written nor removed: ours have a label, and a field manager of our own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from msgspec import Struct, field

from policies.engine.request import JsonObject, mapping
from webhook.audit.finding import Scope
from webhook.audit.part import WHOLE, Part
from webhook.audit.reports.form import FORMS, Form, NoReportsError
from webhook.audit.reports.notice import notice
from webhook.audit.reports.report import CONTENT, LABEL, SOURCE, name, report
from webhook.audit.reports.store import Known, Store
from webhook.cluster.api.call import Call
from webhook.cluster.api.errors import ApiError
from webhook.cluster.inspection.listing import Lister
from webhook.cluster.inspection.notices import Notices, Told
from webhook.cluster.inspection.served import ServedResource

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
    """The kinds that a cluster has, first those to write. Raises NoReportsError if there are none."""
    by_name = {(one.api_version, one.resource.resource): one for one in served}
    found = []
    for form in FORMS:
        both = [by_name.get((form.api_version, plural)) for plural in (form.plural, form.cluster_plural)]
        found += [Kinds(form, *filter(None, both))] if all(both) else []
    if not found:
        names = " nor ".join(form.api_version for form in FORMS)
        hint = "install the CustomResourceDefinitions of one of them, see https://github.com/openreports/reports-api"
        raise NoReportsError(f"-o reports: the cluster has neither {names}; {hint}")
    return tuple(found)


class Reports:
    """The reports of a cluster, or of a part of it. namespaces: those that were audited, empty for all.

    notices: by which people are told of reports that are written.
    """

    def __init__(
        self,
        lister: Lister,
        kinds: Sequence[Kinds],
        notices: Notices,
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
            await self._remove(known, done)
        return done

    async def _ours(self) -> AsyncIterator[Known]:
        """Our reports in all forms: after a change to another form those of the first go."""
        for group, chosen in self._kinds.items():
            lists = [(chosen.namespaced, namespace) for namespace in self._namespaces or ("",)]
            lists += [] if self._namespaces else [(chosen.cluster_wide, "")]
            for resource, namespace in lists:
                labels = f"{LABEL}={SOURCE}"
                async for listed in self._lister.objects(resource, namespace, metadata=True, labels=labels):
                    metadata = mapping(listed.object, "metadata")
                    if _is_ours(metadata) and self._part.has(_place(metadata)):
                        yield _known(group, metadata)

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

    async def _remove(self, known: Known, done: Written) -> None:
        path = self._kinds[known.api].of(known.namespace).path(known.namespace, known.name)
        try:
            await self._lister.answer(Call("DELETE", path, body={"preconditions": {"uid": known.uid}}))
        except ApiError as error:
            if error.status not in (404, _CONFLICT):  # else it is gone with its workload, or another is there
                raise
        done.removed += 1


def _is_ours(metadata: JsonObject) -> bool:
    managers = metadata.get("managedFields")
    entries = [entry for entry in managers if isinstance(entry, dict)] if isinstance(managers, list) else []
    return any((entry.get("manager"), entry.get("operation")) == (MANAGER, "Apply") for entry in entries)


def _place(metadata: JsonObject) -> str:
    """By what a report belongs to a part: its Namespace, or the name of the object in none that it is about."""
    owners = metadata.get("ownerReferences") or [{}]
    return str(metadata.get("namespace") or owners[0].get("name"))


def _known(group: str, metadata: JsonObject) -> Known:
    content = mapping(metadata, "annotations").get(CONTENT)
    return Known(group, str(metadata.get("namespace") or ""), str(metadata["name"]), str(metadata["uid"]), str(content))
