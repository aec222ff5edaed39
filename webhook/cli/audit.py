"""`cks-admission audit`: of files, or of a cluster, for which the client is loaded."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from policies.engine.facts import StaticFacts
from policies.kubernetes.release import NEWEST
from webhook.audit.audit import ANYBODY, Audit, as_sent, audit_rules
from webhook.audit.finding import WHOLE, AuditError, Owners, Part
from webhook.cli import options
from webhook.cli.auditreport import AuditReport, Inquiry, tell
from webhook.cli.findings import Result, unreadable
from webhook.cli.judging import Source, as_received, documents, schemas
from webhook.cli.output import InputError, reading
from webhook.configuration.settings import SettingsError
from webhook.files import manifest
from webhook.files.walk import walk
from webhook.sources.policyset import EMPTY


def _part(context: click.Context, parameter: click.Parameter, value: str) -> Part:
    index, _, count = value.partition("/")
    if not (index.isdecimal() and count.isdecimal() and int(index) < int(count)):
        raise click.BadParameter(f"{value!r} is not INDEX/COUNT, such as 0/4 to 3/4", context, parameter)
    return Part(int(index), int(count))


@click.command("audit")
@options.objects
@click.option("--ignore", multiple=True, metavar="PATTERN", help="Files to leave out in folders; repeatable.")
@click.option("--kubeconfig", default="", metavar="FILE", help="Kubeconfig of the cluster to audit.")
@options.setting("--in-cluster", "cluster.inCluster", is_flag=True, help="Audit the cluster in which this Pod runs.")
@click.option(
    "-n", "--namespace", "namespaces", multiple=True, help="Audit the objects of this Namespace only; repeatable."
)
@click.option(
    "--kind", "kinds", multiple=True, help="Audit this kind only, such as Pod or Deployment.apps; repeatable."
)
@options.policies
@options.kubernetes
@options.config
@click.option(
    "--qps", type=click.FloatRange(0.1, 1000), default=10.0, show_default=True,
    help="Requests per second to the API server, at most.",
)  # fmt: skip
@click.option(
    "--shard", "part", default="0/1", metavar="INDEX/COUNT", callback=_part,
    help="Audit one of so many parts of the cluster; the first is 0.",
)  # fmt: skip
@options.output_of(
    *("text", "json", "junit", "sarif", "reports"),
    help="Output format; json is a line for each finding, reports are PolicyReports in the cluster.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print no summary.")
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings, too.")
def command(paths: tuple[str, ...], config: Path | None, **given: Any) -> None:
    """Show what rules and policies would say to objects that exist already, in a cluster or in files.

    It judges each object as if somebody who is not exempt created it today, and changes nothing. Policies that need a
    request, such as those that read userInfo, are listed on stderr.

    Exit codes: 0 if nothing would be refused, 1 if something would, 2 if something cannot be read, 3 if the cluster
    fails. With -o reports, refusals are 0, too.

    \b
    Examples:
      cks-admission audit --kubeconfig ~/.kube/config
      cks-admission audit --kubeconfig ~/.kube/config -n team-a --kind Pod --kind Deployment -o json
      cks-admission audit --kubeconfig ~/.kube/config --policies policies/ -o sarif
      cks-admission audit --in-cluster -o reports --shard 0/4
      kubectl get pods,deployments -A -o json | cks-admission audit -
    """
    changes = {key: given.pop(key) for key in tuple(given) if "__" in key}
    settings = options.settings(config, changes)
    in_cluster = bool(given["kubeconfig"] or settings.cluster.kubeconfig or settings.cluster.in_cluster)
    if paths and given["kubeconfig"]:
        raise InputError("files and --kubeconfig are two audits; give one of them")
    if not paths and not in_cluster:
        raise InputError("name files or folders, or a cluster with --kubeconfig")
    for is_given, option in ((given["output"] == "reports", "-o reports"), (given["part"] != WHOLE, "--shard")):
        if paths and is_given:
            raise InputError(f"{option} is for the audit of a cluster")
    asked = Inquiry(settings, paths, **given)
    with reading(SettingsError, AuditError):
        if paths:
            sys.exit(asyncio.run(_of_files(asked, datetime.now(UTC).date())))
        from webhook.cli import clusteraudit  # noqa: PLC0415 - loads the client

        sys.exit(options.of_cluster(settings.cluster, partial(clusteraudit.audit, asked), asked.kubeconfig))


async def _of_files(asked: Inquiry, today: date) -> int:
    """Judge the objects in files and print what is found. The exit code. Raises InputError and SettingsError."""
    written = options.policy_files(asked.settings, today, drafts=True)
    release = asked.settings.policies.release or NEWEST
    rules = audit_rules(asked.settings, written or EMPTY.files._replace(release=release))
    tell(rules.silent, rules.doubts)
    owners = Owners()
    work = Audit(rules, written.facts(today) if written else StaticFacts(today), None, owners)
    report, walked = AuditReport(asked), walk(asked.files, asked.ignore)
    for problem in walked.problems:
        report.unreadable(unreadable(problem))
    source = Source.of(walked.files)
    known = schemas(source.context(options.CRD), written, release)
    kinds = {kind.lower() for kind in asked.kinds}
    for item in (item for part in source.parts() for item in documents(part)):
        if isinstance(item, Result):
            report.unreadable(item)
            continue
        received = as_received(item.object, known)
        # The request that would create it; its resource is guessed from its kind.
        request = manifest.request(as_sent(received), None, user=ANYBODY, namespace="default", uid="audit")
        kind, resource = request.kind.kind.lower(), request.resource.resource.lower()
        group = f".{request.kind.group.lower()}" if request.kind.group else ""
        in_namespace = not asked.namespaces or request.scope_namespace in asked.namespaces
        if in_namespace and (not kinds or not kinds.isdisjoint((kind, kind + group, resource, resource + group))):
            owners.remember(received)
            report.add(await work.judged(request), item)
    if not (report.counts["objects"] or report.counts["unreadable"]):
        raise InputError(f"{', '.join(asked.files)}: no objects found")
    return report.end()
