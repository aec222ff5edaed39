"""The audit of files: the objects in them, judged as those of a cluster."""

from __future__ import annotations

from datetime import date

from policies.engine.facts import StaticFacts
from policies.engine.request import AdmissionRequest, JsonObject
from policies.kubernetes.release import NEWEST
from webhook.audit import rules as auditrules
from webhook.audit.audit import Audit
from webhook.audit.owners import Owners
from webhook.audit.rules import ANYBODY, as_sent
from webhook.cli import options
from webhook.cli.audit.report import AuditReport, Inquiry, tell
from webhook.cli.exits import InputError
from webhook.cli.findings import Result, unreadable
from webhook.cli.judging import as_received, documents, schemas
from webhook.cli.objects import CRD, Source
from webhook.files import manifest
from webhook.files.walk import walk
from webhook.sources.policyset import EMPTY

_DEFAULT = "default"


async def audit(asked: Inquiry, today: date) -> int:
    """Judge the objects in files and print what is found. The exit code. Raises InputError and SettingsError."""
    written = options.policy_files(asked.settings, today, drafts=True)
    release = asked.settings.policies.release or NEWEST
    rules = auditrules.made(asked.settings, written or EMPTY.files._replace(release=release))
    tell(rules.silent, rules.doubts)
    owners = Owners()
    work = Audit(rules, written.facts(today) if written else StaticFacts(today), None, owners)
    report, walked = AuditReport(asked), walk(asked.files, asked.ignore)
    for problem in walked.problems:
        report.unreadable(unreadable(problem))
    source = Source.of(walked.files)
    known = schemas(source.context(CRD), written, release)
    for item in (item for part in source.parts() for item in documents(part)):
        if isinstance(item, Result):
            report.unreadable(item)
            continue
        received = as_received(item.object, known)
        request = _request(received)
        if _is_asked(request, asked):
            owners.remember(received)
            report.add(await work.judged(request), item)
    if not (report.counts["objects"] or report.counts["unreadable"]):
        raise InputError(f"{', '.join(asked.files)}: no objects found")
    return report.end()


def _request(obj: JsonObject) -> AdmissionRequest:
    """The request that would create an object; its resource is guessed from its kind."""
    return manifest.request(as_sent(obj), None, user=ANYBODY, namespace=_DEFAULT, uid="audit")


def _is_asked(request: AdmissionRequest, asked: Inquiry) -> bool:
    kind, resource = request.kind, request.resource
    group = f".{kind.group}" if kind.group else ""
    names = {name.lower() for name in (kind.kind, kind.kind + group, resource.resource, resource.resource + group)}
    in_namespace = not asked.namespaces or request.scope_namespace in asked.namespaces
    return in_namespace and (not asked.kinds or any(name.lower() in names for name in asked.kinds))
