"""`cks-admission topology explain`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import click

from policies.topology.schemes.judgement import Judge
from policies.topology.schemes.mention import Mention, mentions
from webhook.cli import exits, options
from webhook.cli.objects.outcome import ObjectOutcome, decide
from webhook.cli.output import write
from webhook.cli.topology import report
from webhook.cli.topology.context import Context, read, subject
from webhook.cli.topology.explanation import Explanation, explain
from webhook.files.manifest import Manifest


class ObjectExplanation(NamedTuple):
    """What becomes of an object and its templates. nothing: why there is nothing to explain, empty where there is.

    schemes: the levels that it names in the ways of other schedulers, each with what it comes to.
    """

    outcome: ObjectOutcome
    templates: tuple[Explanation, ...]
    schemes: tuple[tuple[Mention, str], ...]
    nothing: str


@click.command("explain", short_help="Say what becomes of topology annotations, and why.")
@subject
@options.output
def command(output: str, **inputs: Any) -> None:
    """Say what becomes of topology annotations: which hold, who keeps the Pods together, and why.

    With Nodes it also says on how many of them the Pods may land.

    \b
    Examples:
      cks-admission topology explain -f train.yaml
      cks-admission topology explain -f train.yaml --nodes nodes.json
      cks-admission topology explain -f manifests/ --kubeconfig ~/.kube/config
    """
    objects, around = read(**inputs)
    explained = [_explain(written, around) for written in objects]
    if output == "text":
        click.echo("\n".join(line for explanation in explained for line in _text(explanation)))
    else:
        write([_json(explanation) for explanation in explained], output)
    sys.exit(exits.OK if all(explanation.outcome.allowed for explanation in explained) else exits.REFUSED)


def _explain(given: Manifest, context: Context) -> ObjectExplanation:
    request = context.request(given)
    facts = context.facts(request.namespace)
    explained = context.rule.explain(request, facts)
    templates = tuple(explain(one, context.known.machines) for one in explained)
    row = context.rule.options.workloads.get(request.kind.group_kind)
    judge = Judge(context.rule.catalog(facts), facts.nodes())
    named = mentions(request.object, request.kind.group_kind, row)
    schemes = tuple((mention, judge.meaning(mention)) for mention in named if not judge.problem(mention))
    nothing = "" if templates or schemes else context.nothing(request)
    return ObjectExplanation(decide(given, request, context.ruleset, facts), templates, schemes, nothing)


def _text(explained: ObjectExplanation) -> Iterator[str]:
    outcome = explained.outcome
    yield outcome.headline
    if explained.nothing:
        yield f"  Nothing is done: {explained.nothing}."
    for template in explained.templates:
        yield from ("  " + line for line in report.text(template))
    for mention, meaning in explained.schemes:
        yield f"  {mention.path}: {mention.value}"
        yield f"    {meaning}."
    for warning in outcome.warnings:
        yield f"  {click.style('Warning:', fg='yellow')} {warning}"
    yield from ("  " + line for line in outcome.message.splitlines())


def _json(explained: ObjectExplanation) -> dict[str, Any]:
    return {
        **explained.outcome.head,
        "nothing": explained.nothing,
        "templates": [report.data(template) for template in explained.templates],
        "schemes": [
            {"path": mention.path, "value": mention.value, "reader": mention.reader, "meaning": meaning}
            for mention, meaning in explained.schemes
        ],
        "message": explained.outcome.message,
        "warnings": explained.outcome.warnings,
    }
