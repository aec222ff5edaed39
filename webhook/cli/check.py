"""`cks-admission check`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from policies.engine.facts import StaticFacts
from policies.engine.request import JsonObject, UserInfo, mapping
from policies.engine.violation import listed
from policies.kubernetes.release import NEWEST
from webhook.cli import options, watching
from webhook.cli.exits import InputError, reading
from webhook.cli.findings import Report, unreadable
from webhook.cli.options import SchemaOptions
from webhook.cli.output import say
from webhook.configuration.rules import workload_table
from webhook.configuration.settings import Settings, SettingsError
from webhook.files import manifest
from webhook.files.walk import walk
from webhook.files.yamlfile import FileError

if TYPE_CHECKING:
    from policies.admissionpolicy.rules.coverage import Coverage
    from webhook.cli.judging import Judge
    from webhook.sources.policyfiles import PolicyFiles

_ASKS = re.compile(r"\bauthorizer\b").search
_COUNTS = ("refused", "warned", "changed", "matched by no policy", "not read")


class _Asked(NamedTuple):
    """What is asked for: the objects, who sends them and where to, the Nodes and schemas, and how it is printed."""

    paths: tuple[str, ...]
    ignore: tuple[str, ...]
    old: str | None
    user: UserInfo
    namespace: str
    labels: Mapping[str, str]
    nodes: tuple[str, ...]
    schemas: SchemaOptions
    settings: Settings
    output: str
    diff: bool
    quiet: bool
    strict: bool


@click.command("check")
@options.objects
@click.option(
    "--ignore", multiple=True, metavar="PATTERN", help="Files to leave out in folders, as in .gitignore; repeatable."
)
@click.option(
    "--old",
    type=click.Path(exists=True, dir_okay=False),
    help="File with the objects as they are now; makes these requests updates.",
)
@click.option("--as", "user", default="user", show_default=True, help="User who sends the request.")
@click.option("--as-group", "groups", multiple=True, help="Group of that user; repeatable.")
@click.option(
    "-n", "--namespace", default="default", show_default=True, help="Namespace of objects that do not name one."
)
@options.namespace_labels
@options.policies
@options.kubernetes
@options.nodes
@options.schemas
@click.option("--diff", is_flag=True, help="Show a diff of each object that would be changed.")
@options.config
@options.findings
@options.watch
def command(
    paths: tuple[str, ...], user: str, groups: tuple[str, ...],
    namespace_labels: tuple[str, ...], config: Path | None, policies__directories: tuple[str, ...],
    policies__kubernetes: str | None, schema: str, crds: tuple[str, ...], kubeconfig: str, *, watch: bool, **rest: Any,
) -> None:  # fmt: skip
    """Show what `kubectl apply` would do to objects: mutate, then validate. No cluster is needed.

    It reads the .yaml, .yml and .json files of folders, except hidden ones and those that --ignore or a .cksignore
    names. Schemas judge objects first, CustomResourceDefinitions custom resources. With --nodes it warns of what the
    Nodes cannot do, such as hold a gang in one domain.

    Exit codes: 0 if all objects would be admitted, 1 if some would be refused, 2 if something cannot be read.

    \b
    Examples:
      cks-admission check examples/
      cks-admission check examples/deployment.yaml --as alice --as-group dev --diff
      cks-admission check examples/ --policies policies/packs/scheduling-safety -o sarif
      cks-admission check docs/guides/topology/train.yaml --nodes docs/guides/topology/nodes.yaml --diff
      kubectl kustomize overlays/production | cks-admission check -
      helm template charts/web | cks-admission check - --strict
      kubectl get deployment web -o yaml > old.yaml; cks-admission check web.yaml --old old.yaml
    """
    if not paths:
        raise InputError("name files or folders, such as `cks-admission check deploy/`, or - for standard input")
    changes = {"policies__directories": policies__directories, "policies__kubernetes": policies__kubernetes}
    asked = _Asked(
        paths,
        user=UserInfo(user, groups=(*groups, "system:authenticated")),
        labels=options.labels(namespace_labels),
        schemas=SchemaOptions(schema, crds, kubeconfig),
        settings=options.settings(config, changes),
        **rest,
    )
    options.refuse_one_stdin(paths, asked.nodes)
    watching.run(lambda: _run(asked), (*paths, *policies__directories), again=watch)


def _run(asked: _Asked) -> int:
    """Judge the objects and print what comes of them. The exit code. Raises InputError and ToolError."""
    from webhook.cli import objects  # noqa: PLC0415 - the help of a verb needs none of this

    found = walk(asked.paths, asked.ignore)
    if found.passed:
        say(f"passed over, for no objects are in them: {listed(found.passed, 5)}", err=True)
    source = objects.Source.of(found.files)
    report = Report(asked.output, quiet=asked.quiet, strict=asked.strict)
    for problem in found.problems:
        report.add(unreadable(problem))
    judge = _judge(asked, list(source.context(*objects.CONTEXT)))
    # What one gang takes of the Nodes is not free for the next.
    steps = objects.steps(source.parts(), judge, alone=bool(asked.nodes))
    with objects.progress(source.size, shown=asked.output in ("junit", "sarif", "gitlab") or asked.quiet) as bar:
        for step in steps:
            for result in step.results:
                report.add(result)
            bar(step.characters)
    if not report.total:
        raise InputError(f"{', '.join(asked.paths)}: no objects found")
    if judge.coverage is not None:
        _tell_idle(judge.coverage, report.total)
    judged = report.total - report.counts["not read"]
    parts = [f"{report.counts[name]} {name}" for name in _COUNTS if report.counts[name]]
    summary = f"{judged} objects: {', '.join(parts) or 'all admitted as they are'}"
    return report.end([summary] if judged > 1 else [])


def _judge(asked: _Asked, among: Iterable[JsonObject]) -> Judge:
    """The judge for what is asked. among: the objects by which others are judged."""
    from policies.admissionpolicy.builtin.plugins import Limits  # noqa: PLC0415 - the help of a verb needs none of this
    from policies.schema.schemas import Schemas  # noqa: PLC0415 - as above
    from webhook.cli import judging  # noqa: PLC0415 - as above
    from webhook.cli.judging import as_received, identity  # noqa: PLC0415 - as above
    from webhook.cli.objects import CRD  # noqa: PLC0415 - as above

    settings, today = asked.settings, datetime.now(UTC).date()
    release = settings.policies.release or NEWEST
    own = [*(one for one in among if one["kind"] == CRD), *asked.schemas.definitions()]
    specs = [mapping(one, "spec") for one in own]
    kinds = Counter(f"{mapping(spec, 'names').get('kind')} of {spec.get('group')}" for spec in specs)
    for name in sorted(name for name, count in kinds.items() if count > 1):
        say(f"{name} is defined more than once; the last definition counts", err=True)
    with reading(SettingsError, FileError):
        written, ruleset = options.ruleset(settings, today, drafts=True)
        known = judging.schemas(own, written, release)
        facts = written.facts(today) if written else StaticFacts(today)
        beside = (document.value for document in written.loaded.context) if written else ()
        defined = (*own, *options.definitions_among(beside))
        before = (as_received(m.object, known) for m in manifest.read([asked.old] if asked.old else []))
        circumstances = judging.Circumstances(
            ruleset=ruleset,
            facts=judging.with_nodes(facts, asked.nodes),
            schema=known,
            user=asked.user,
            namespace=asked.namespace,
            labels=asked.labels,
            today=today,
            before={identity(obj, asked.namespace): obj for obj in before},
            schemas=Schemas(release, defined) if asked.schemas.mode == "strict" else None,
            limits=Limits((as_received(one, known) for one in among), asked.namespace),
            workloads=workload_table(settings),
        )
    coverage = None if written is None else _coverage(written, facts, asked)
    return judging.Judge(circumstances, asked.output, diff=asked.diff, coverage=coverage)


def _coverage(written: PolicyFiles, facts: StaticFacts, asked: _Asked) -> Coverage:
    """Which policies match anything. It is said on stderr whose checks of rights the files do not answer."""
    from policies.admissionpolicy.rules.coverage import Coverage  # noqa: PLC0415 - most runs have no policies

    asking = [p.name for p in written.loaded.policies if any(_ASKS(one.source.text) for one in p.expressions)]
    if asking and written.rights is None:
        say(f"no RBAC objects are among the policies, so each authorizer check of {listed(asking, 5)} fails", err=True)

    def labels(namespace: str) -> Mapping[str, str]:
        return {**facts.namespace_labels(namespace), **asked.labels}

    loaded = written.loaded
    return Coverage(loaded.policies, loaded.bindings, labels, workload_table(asked.settings))


def _tell_idle(coverage: Coverage, objects: int) -> None:
    """Say on stderr which policies matched nothing: those that are probably misspelt, and the number of the others."""
    found = list(coverage.idle())
    for policy, reason, hint in found:
        if hint:
            say(f"{policy}: 0 of {objects} objects matched {reason}; did you mean {hint}?", err=True)
    if others := [f"{policy} ({reason})" for policy, reason, hint in found if not hint]:
        say(f"0 of {objects} objects matched {'; '.join(others)}", err=True)
