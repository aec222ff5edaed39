"""`cks-admission doctor`."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import structs

from webhook.cli import options
from webhook.cli.output import OK, REFUSED, InputError, reading, show, style
from webhook.configuration.settings import Settings, SettingsError
from webhook.doctor.observation import Diagnosis, Level, count

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection
    from webhook.cluster.inspection.examination import Inquiry

_MARKS: dict[Level, tuple[str, str]] = {
    "ok": ("ok  ", "green"),
    "warning": ("warn", "yellow"),
    "problem": ("FAIL", "red"),
    "unknown": ("?   ", "cyan"),
}


@click.command("doctor")
@options.config
@click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="Kubeconfig of the cluster to check, instead of the one in the configuration.",
)
@options.in_cluster
@click.option(
    "--as-service-account",
    "account",
    metavar="NAMESPACE/NAME",
    help="Check the rights of this service account. Default: those of the current account.",
)
@click.option(
    "--probe-namespace",
    default="default",
    show_default=True,
    help="Namespace in which doctor tries to set a reserved label (dry run).",
)
@click.option("--manage", "of_manage", is_flag=True, help="Check the rights of manage, not those of a replica.")
@click.option("--place", "of_placer", is_flag=True, help="Check the rights of the placer, not those of a replica.")
@click.option("--no-probe", is_flag=True, help="Do not try to set a reserved label.")
@options.output
def command(
    config: Path | None,
    kubeconfig: str,
    account: str | None,
    probe_namespace: str,
    output: str,
    *,
    of_manage: bool,
    of_placer: bool,
    no_probe: bool,
    **changes: bool | None,
) -> None:
    """Check an installation and say how to fix what is wrong. Nothing is changed.

    Exit codes: 0 if there are no problems, 1 if there are any, 3 if the API server cannot be reached.

    \b
    Examples:
      cks-admission doctor --config cks.yaml --kubeconfig ~/.kube/config
      cks-admission doctor --config cks.yaml --as-service-account cks-admission/cks-admission
      kubectl exec -n cks-admission deploy/cks-admission -- cks-admission doctor --config config/cks.yaml
      kubectl exec -n cks-admission deploy/cks-admission-manage -- \\
        cks-admission doctor --config config/cks.yaml --manage
    """
    from webhook.cluster.inspection.examination import Inquiry  # noqa: PLC0415 - loads the client

    if of_manage and of_placer:
        raise InputError("--manage and --place: give one of them")
    settings = options.settings(config, changes)
    configured = bool(settings.cluster.kubeconfig) or settings.cluster.in_cluster
    namespace, _, name = (account or "").partition("/")
    if account is not None and (not namespace or not name or "/" in name):
        raise InputError(f"--as-service-account {account}: write NAMESPACE/NAME")
    asked = Inquiry(
        (namespace, name) if account is not None else None,
        not kubeconfig and configured,
        "" if no_probe else probe_namespace,
    )
    with reading(SettingsError):
        findings = options.of_cluster(
            settings.cluster, partial(_examine, settings, asked, of_manage=of_manage, of_placer=of_placer), kubeconfig
        )
    lines = []
    for check, group in groupby(findings, lambda finding: finding.check):
        lines.append(style(check, bold=True))
        for finding in group:
            mark, colour = _MARKS[finding.level]
            first, *more = f"{finding.where}: {finding.found}".splitlines()
            lines += [f"  {style(mark, fg=colour)} {first}", *(f"       {line}" for line in more)]
            lines += [f"       -> {finding.remedy}"] if finding.remedy else []
    levels = Counter(finding.level for finding in findings)
    problems = count(levels["problem"], "problem") if levels["problem"] else "no problem"
    lines.append(f"{problems}, {count(levels['warning'], 'warning')}, {levels['unknown']} unknown")
    show(output, lines, [structs.asdict(finding) for finding in findings])
    sys.exit(REFUSED if any(finding.level == "problem" for finding in findings) else OK)


async def _examine(
    settings: Settings, asked: Inquiry, api: Connection, *, of_manage: bool, of_placer: bool
) -> list[Diagnosis]:
    """The diagnoses. Raises SettingsError and ClusterError."""
    from webhook.cluster.inspection import examination  # noqa: PLC0415 - loads the client
    from webhook.doctor import desired  # noqa: PLC0415 - loads the CEL engine
    from webhook.doctor.checks import examine, judged_as  # noqa: PLC0415 - as above
    from webhook.doctor.connection import is_static  # noqa: PLC0415 - as above
    from webhook.registration.rights import needed, needed_by_manager, placer  # noqa: PLC0415 - as above

    asked_for = needed_by_manager if of_manage else placer if of_placer else needed
    api.user_agent = "cks-admission-doctor"  # in the audit log, missing rights of doctor are no fault
    state = await examination.examine(api, settings, asked_for(settings), asked)
    now = datetime.now(UTC)
    release, in_files = judged_as(state.version, settings), asked.probed == "" or is_static(state.probe)
    read = state.namespaces, state.maps, state.natives
    made = await desired.make(settings, *read, now.date(), release, is_static=in_files)
    return list(examine(settings, state, made, now))
