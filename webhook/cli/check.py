"""`cks-admission check`."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from msgspec.structs import replace

from policies.engine import engine
from policies.engine.engine import Answer, Decision
from policies.engine.facts import StaticFacts
from policies.engine.request import AdmissionRequest, JsonObject, UserInfo
from policies.engine.ruleset import RuleSet
from policies.objects import patch
from webhook.cli import exits, options
from webhook.cli.exits import InputError, reading
from webhook.cli.output import headline, to_yaml, write
from webhook.configuration.rules import workload_table
from webhook.configuration.settings import Settings, SettingsError
from webhook.files import manifest
from webhook.files.manifest import Manifest, ManifestError
from webhook.files.yamlfile import FileError

if TYPE_CHECKING:
    from webhook.sources.policyfiles import PolicyFiles


class ObjectOutcome(NamedTuple):
    """What would happen to an object: the changes of the rules, and their verdict on the result."""

    manifest: Manifest
    request: AdmissionRequest
    changed: JsonObject
    mutation: Answer
    validation: Answer

    @property
    def allowed(self) -> bool:
        """Whether the object would be admitted."""
        return self.mutation.allowed and self.validation.allowed

    @property
    def message(self) -> str:
        """The refusal; empty where there is none."""
        return "\n".join(answer.message for answer in (self.mutation, self.validation) if answer.message)

    @property
    def warnings(self) -> list[str]:
        """What whoever applies the object is warned of."""
        return [*self.mutation.warnings, *self.validation.warnings]

    @property
    def headline(self) -> str:
        """The line about the object."""
        return headline(self.manifest.where, self.request, allowed=self.allowed)

    @property
    def head(self) -> dict[str, Any]:
        """The same as data."""
        return {
            "where": self.manifest.where,
            "kind": self.request.kind.kind,
            "namespace": self.request.scope_namespace,
            "name": self.request.display_name,
            "allowed": self.allowed,
        }


@click.command("check")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="FILE|DIR|-",
    help="File or directory with objects, or - for standard input; repeatable.",
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
@options.nodes
@click.option("--diff", is_flag=True, help="Show a diff of each object that would be changed.")
@options.config
@options.output
def command(
    files: tuple[str, ...], old: str | None, user: str, groups: tuple[str, ...], namespace: str,
    namespace_labels: tuple[str, ...], nodes: tuple[str, ...], config: Path | None, output: str, *, diff: bool,
    **changes: tuple[str, ...],
) -> None:  # fmt: skip
    """Show what `kubectl apply` would do to objects: mutate, then validate. No cluster is needed.

    With Nodes it chooses the domain of a gang as the service does in their cluster.

    \b
    Examples:
      cks-admission check -f train.yaml
      cks-admission check -f manifests/ --as alice --as-group dev --diff
      cks-admission check -f manifests/ --policies policies/
      cks-admission check -f train.yaml --nodes nodes.json --diff
      kubectl get deployment web -o yaml > old.yaml; cks-admission check -f web.yaml --old old.yaml
    """
    settings = options.settings(config, changes)
    options.refuse_one_stdin(files, nodes)
    with reading(SettingsError, FileError, ManifestError):
        written, ruleset = options.ruleset(settings, datetime.now(UTC).date(), drafts=True)
        olds = list(manifest.read([old])) if old else []
    manifests = read_objects(files)
    olds, manifests = (_received(each, written, [*olds, *manifests]) for each in (olds, manifests))
    before = {_identity(m.object, namespace): m.object for m in olds}
    today = datetime.now(UTC).date()
    facts = _with_nodes(written.facts(today) if written else StaticFacts(today), nodes, settings)
    labels = options.labels(namespace_labels)
    who = UserInfo(user, groups=(*groups, "system:authenticated"))
    outcomes = []
    for given in manifests:
        earlier = before.get(_identity(given.object, namespace))
        request = manifest.request(given.object, earlier, user=who, namespace=namespace)
        outcomes.append(decide(given, request, ruleset, in_namespace(facts, request.namespace, labels)))
    if written is not None:
        _tell_idle(written, [outcome.request for outcome in outcomes], facts, labels, settings)
    if output == "text":
        for outcome in outcomes:
            click.echo("\n".join(_text(outcome, diff=diff)))
    else:
        write([_json(outcome) for outcome in outcomes], output)
    sys.exit(exits.OK if all(outcome.allowed for outcome in outcomes) else exits.REFUSED)


def _received(manifests: Iterable[Manifest], written: PolicyFiles | None, others: Iterable[Manifest]) -> list[Manifest]:
    """The objects as the API server reads them. others: objects among which there may be CRDs."""
    from policies.admissionpolicy import schema  # noqa: PLC0415 - only objects to be judged need the tables
    from policies.admissionpolicy.builtin.intake import kind_of, received  # noqa: PLC0415
    from webhook.sources.policyfiles import custom  # noqa: PLC0415

    definitions = [m.object.get("spec") or {} for m in others if m.object["kind"] == "CustomResourceDefinition"]
    known = {**(written.custom if written else {}), **custom(definitions)}
    kinds = ((m, kind_of(m.object)) for m in manifests)
    return [m._replace(object=received(m.object, known.get(kind) or schema.known(kind))) for m, kind in kinds]


def _tell_idle(
    written: PolicyFiles,
    requests: Sequence[AdmissionRequest],
    facts: StaticFacts,
    labels: Mapping[str, str],
    settings: Settings,
) -> None:
    """Say on stderr which policies matched nothing: those that are probably misspelt, and the number of the others."""
    from policies.admissionpolicy.rules.coverage import idle  # noqa: PLC0415 - most runs have no policies

    loaded = written.loaded
    of = partial(_labels_of, facts=facts, more=labels)
    found = list(idle(loaded.policies, loaded.bindings, requests, of, workload_table(settings)))
    for policy, reason, hint in found:
        if hint:
            click.echo(f"{policy}: 0 of {len(requests)} objects matched {reason}; did you mean {hint}?", err=True)
    if others := [f"{policy} ({reason})" for policy, reason, hint in found if not hint]:
        click.echo(f"0 of {len(requests)} objects matched {'; '.join(others)}", err=True)


def _labels_of(namespace: str, *, facts: StaticFacts, more: Mapping[str, str]) -> Mapping[str, str]:
    return {**facts.namespace_labels(namespace), **more}


def _with_nodes(facts: StaticFacts, paths: Sequence[str], settings: Settings) -> StaticFacts:
    """The facts with the Nodes in files. Raises InputError."""
    if not paths:
        return facts
    from webhook.cli.topology import nodefiles, stock  # noqa: PLC0415 - most runs read no Nodes

    objects = nodefiles.read(paths, options.stdin(paths))
    nodes = tuple(manifest.node for manifest in objects.nodes)
    choose = stock.chooser(objects, stock.records(objects, settings))
    # Requests on a command line are dry runs, but what one object takes is not free for the next.
    return replace(facts, cluster_nodes=nodes, chooser=lambda key: choose(replace(key, dry_run=False)))


def in_namespace(facts: StaticFacts, namespace: str, labels: Mapping[str, str]) -> StaticFacts:
    """The facts for what is in a Namespace that has further labels."""
    return replace(facts, namespaces={namespace: {**facts.namespace_labels(namespace), **labels}})


def read_objects(files: Sequence[str]) -> list[Manifest]:
    """The objects in files. Raises InputError, also where there are none."""
    with reading(FileError, ManifestError):
        manifests = list(manifest.read(files, options.stdin(files)))
    if not manifests:
        raise InputError(f"{', '.join(files)}: no objects found")
    return manifests


def decide(written: Manifest, request: AdmissionRequest, ruleset: RuleSet, facts: StaticFacts) -> ObjectOutcome:
    """What happens to an object: the rules change it, then judge the result.

    The API server asks nobody to judge what was refused already.
    """
    mutation = engine.mutate(request, ruleset, facts)
    if not mutation.allowed:
        return ObjectOutcome(written, request, written.object, mutation, engine.ADMITTED)
    changed = patch.apply(written.object, mutation.operations) if mutation.operations else written.object
    validation = engine.validate(replace(request, object=changed), ruleset, facts)
    return ObjectOutcome(written, request, changed, mutation, validation)


def _text(outcome: ObjectOutcome, *, diff: bool) -> Iterator[str]:
    changes = len(outcome.mutation.operations)
    changed = f", changed by {changes} patch operation{'s' * (changes > 1)}" if changes else ""
    yield outcome.headline + changed
    for answer in (outcome.mutation, outcome.validation):
        for warning in answer.warnings:
            yield f"  {click.style('Warning:', fg='yellow')} {warning}"
        for decision in answer.decisions:
            if decision.verdict == "excepted" and decision.exception is not None:
                skipped = click.style("skipped:", fg="yellow")
                yield f"  {skipped} {decision.rule} by exception {decision.exception.grounds}"
        if answer.message:
            yield from ("  " + line for line in answer.message.splitlines())
    if diff and changes:
        yield from _diff(outcome)


def _diff(outcome: ObjectOutcome) -> Iterator[str]:
    before, after = to_yaml(outcome.manifest.object).splitlines(), to_yaml(outcome.changed).splitlines()
    colours = {"+": "green", "-": "red"}
    for line in difflib.unified_diff(before, after, "as received", "as admitted", lineterm=""):
        yield "  " + click.style(line, fg=colours.get(line[0]))


def _json(outcome: ObjectOutcome) -> dict[str, Any]:
    return {
        **outcome.head,
        "message": outcome.message,
        "warnings": outcome.warnings,
        "decisions": list(map(_decision, (*outcome.mutation.decisions, *outcome.validation.decisions))),
        "patch": list(outcome.mutation.operations),
    }


def _decision(decision: Decision) -> dict[str, Any]:
    """A decision as data. `exception`, if any: the one that applies, or would have applied until it ended."""
    violations = [{"path": v.path, "text": v.line or v.summary} for v in decision.violations]
    data: dict[str, Any] = {"rule": decision.rule, "verdict": decision.verdict, "violations": violations}
    if (exception := decision.exception) is not None:
        data["exception"] = {"name": exception.name, "until": str(exception.until), "reason": exception.reason}
    return data


def _identity(obj: JsonObject, namespace: str) -> tuple[str, str, str, str]:
    metadata = obj.get("metadata") or {}
    group = obj["apiVersion"].rpartition("/")[0]
    return group, obj["kind"], str(metadata.get("namespace") or namespace), str(metadata.get("name") or "")
