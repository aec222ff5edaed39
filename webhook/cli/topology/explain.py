"""`cks-admission topology explain`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import click

from policies.engine.facts import StaticFacts
from policies.engine.request import AdmissionRequest, UserInfo, is_being_deleted, is_mirror_pod, is_owned
from policies.engine.ruleset import RuleSet
from policies.topology.rule import RULE, TopologyPlacement
from webhook.cli import exits, options
from webhook.cli.check import ObjectOutcome, decide, in_namespace, read_objects
from webhook.cli.exits import InputError
from webhook.cli.output import write
from webhook.cli.topology import inventory, report
from webhook.cli.topology.explanation import Explanation, explain
from webhook.cli.topology.inventory import ClusterOptions, Inventory
from webhook.configuration import rules
from webhook.configuration.settings import Settings, SettingsError
from webhook.files import manifest
from webhook.files.manifest import Manifest


class ObjectExplanation(NamedTuple):
    """What becomes of an object and its templates. nothing: why there is nothing to explain, empty where there is."""

    outcome: ObjectOutcome
    templates: tuple[Explanation, ...]
    nothing: str


class _Context(NamedTuple):
    """What the explanation of an object depends on. labels: of their Namespaces."""

    rule: TopologyPlacement
    ruleset: RuleSet
    namespace: str
    labels: Mapping[str, str]
    known: Inventory

    def facts(self, namespace: str) -> StaticFacts:
        """The facts for what is in a Namespace."""
        nodes = tuple(machine.node for machine in self.known.machines or ())
        facts = StaticFacts(datetime.now(UTC).date(), cluster_nodes=nodes, cluster_topologies=self.known.own)
        return in_namespace(facts, namespace, self.labels)


@click.command("explain", short_help="Say what becomes of topology annotations, and why.")
@click.option(
    "-f", "--filename", "files", multiple=True, required=True, metavar="FILE|DIR|-", help="Objects; repeatable."
)
@inventory.nodes
@inventory.cluster
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of objects that name none.")
@options.namespace_labels
@options.config
@options.output
def command(
    files: tuple[str, ...], nodes: tuple[str, ...], kubeconfig: str, namespace: str,
    namespace_labels: tuple[str, ...], config: Path | None, output: str, *, in_cluster: bool,
) -> None:  # fmt: skip
    """Say what becomes of topology annotations: which hold, what is added to the node affinity, and why.

    With Nodes it also says on how many of them the Pods may land.

    \b
    Examples:
      cks-admission topology explain -f train.yaml
      cks-admission topology explain -f train.yaml --nodes nodes.json
      cks-admission topology explain -f manifests/ --kubeconfig ~/.kube/config
    """
    settings = options.settings(config, {})
    if "-" in files and "-" in nodes:
        raise InputError("-f - and --nodes - both read standard input; give one of them as a file")
    objects = read_objects(files)
    known = inventory.read(settings, ClusterOptions(kubeconfig, in_cluster), nodes)
    context = _context(settings, known, namespace, namespace_labels)
    explained = [_explain(written, context) for written in objects]
    if output == "text":
        click.echo("\n".join(line for explanation in explained for line in _text(explanation)))
    else:
        write([_json(explanation) for explanation in explained], output)
    sys.exit(exits.OK if all(explanation.outcome.allowed for explanation in explained) else exits.REFUSED)


def _context(settings: Settings, known: Inventory, namespace: str, labels: Sequence[str]) -> _Context:
    given = options.labels(labels)
    try:
        catalog = rules.topologies(settings)
        built = rules.build(settings, catalog=catalog)
        rule = TopologyPlacement(catalog, rules.topology_options(settings))
    except SettingsError as error:
        raise InputError(str(error)) from None
    ruleset = RuleSet([rule for rule in built.rules if rule.name == RULE], built.exceptions)
    if not ruleset.rules:
        click.echo(f"the rule {RULE} is off: of what follows, nothing is done", err=True)
    return _Context(rule, ruleset, namespace, given, known)


def _explain(given: Manifest, context: _Context) -> ObjectExplanation:
    request = manifest.request(
        given.object, None, user=UserInfo("user", groups=("system:authenticated",)), namespace=context.namespace
    )
    facts = context.facts(request.namespace)
    templates = tuple(
        explain(constraint, translation, context.known.machines)
        for constraint, translation in context.rule.explain(request, facts)
    )
    nothing = "" if templates else _nothing(request, context)
    return ObjectExplanation(decide(given, request, context.ruleset, facts), templates, nothing)


def _nothing(request: AdmissionRequest, context: _Context) -> str:
    """Why an object has nothing to explain."""
    kind = request.kind.kind
    if request.kind.group_kind not in context.rule.options.workloads:
        return f"a {kind} has no pod templates that are known"
    if is_being_deleted(request.object):
        return "it is being deleted"
    if is_mirror_pod(request.object):
        return "it is the mirror of a kubelet's static Pod"
    if kind != "Pod" and is_owned(request.object):
        return f"a controller owns it; explain its owner: a translated {kind} would differ from what that wants"
    return "it has no topology annotations"


def _text(explained: ObjectExplanation) -> Iterator[str]:
    outcome = explained.outcome
    yield outcome.headline
    if explained.nothing:
        yield f"  Nothing is done: {explained.nothing}."
    for template in explained.templates:
        yield from ("  " + line for line in report.text(template))
    for warning in outcome.warnings:
        yield f"  {click.style('Warning:', fg='yellow')} {warning}"
    yield from ("  " + line for line in outcome.message.splitlines())


def _json(explained: ObjectExplanation) -> dict[str, Any]:
    return {
        **explained.outcome.head,
        "nothing": explained.nothing,
        "templates": [report.data(template) for template in explained.templates],
        "message": explained.outcome.message,
        "warnings": explained.outcome.warnings,
    }
