"""`cks-admission topology explain`: what becomes of topology annotations, who keeps the Pods together, and why."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import click
from msgspec.structs import replace

from policies.engine.facts import StaticFacts
from policies.engine.request import AdmissionRequest, UserInfo, is_being_deleted, is_mirror_pod, is_owned
from policies.engine.ruleset import RuleSet
from policies.objects.fieldpath import render
from policies.podspec import node_demand
from policies.topology.nodes.tree import Count, Machine, path
from policies.topology.nodes.tree import Path as Domain
from policies.topology.nodes.tree import count as count_of
from policies.topology.placement import ANNOTATIONS, GATE, Placement, meets
from policies.topology.rule import RULE, Explained, TopologyPlacement
from policies.topology.schemes import Judge, Mention, mentions
from policies.topology.template import Template
from policies.topology.topology import Level, natural
from webhook.cli import exits, options
from webhook.cli.exits import reading
from webhook.cli.judging import ObjectOutcome, decide, in_namespace, read_objects
from webhook.cli.output import counted, say, show, style
from webhook.cli.topology import inventory
from webhook.cli.topology.drawing import noted
from webhook.cli.topology.inventory import Inventory
from webhook.configuration import rules
from webhook.configuration.settings import ClusterSettings, Settings, SettingsError
from webhook.files import manifest
from webhook.files.manifest import Manifest

# A placement in a large cluster leaves some hundred racks.
_SHOWN = 12


class Context(NamedTuple):
    """The topology rule, alone and as a rule set, and what it asks for. labels: of the objects' Namespaces."""

    rule: TopologyPlacement
    ruleset: RuleSet
    namespace: str
    labels: Mapping[str, str]
    known: Inventory
    settings: Settings

    def request(self, given: Manifest) -> AdmissionRequest:
        """The request that would create an object."""
        who = UserInfo("user", groups=("system:authenticated",))
        request = manifest.request(given.object, None, user=who, namespace=self.namespace, uid=given.where)
        return replace(request, dry_run=False)

    def facts(self, namespace: str) -> StaticFacts:
        """The facts for what is in a Namespace."""
        today = datetime.now(UTC).date()
        facts = StaticFacts(today, cluster_nodes=self.known.nodes, cluster_topologies=self.known.own)
        return in_namespace(facts, namespace, self.labels)

    def nothing(self, request: AdmissionRequest) -> str:
        """Why nothing happens to an object without placements."""
        kind = request.kind.kind
        if request.kind.group_kind not in self.rule.options.workloads:
            return f"a {kind} has no known pod templates"
        if is_being_deleted(request.object):
            return "it is being deleted"
        if is_mirror_pod(request.object):
            return "it is the mirror of a kubelet's static Pod"
        if kind != "Pod" and is_owned(request.object):
            return "a controller owns it; explain its owner"
        return "it has no topology annotations"


def subject(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what objects a verb is about, and what their fate depends on; see `read`."""
    files = click.option(
        "-f", "--filename", "files", multiple=True, required=True, metavar="FILE|DIR|-", help="Objects; repeatable."
    )
    namespace = click.option(
        "-n", "--namespace", default="default", show_default=True, help="Namespace of objects that name none."
    )
    return files(options.nodes(inventory.cluster(namespace(options.namespace_labels(options.config(command))))))


def read(
    *,
    files: Sequence[str],
    nodes: Sequence[str],
    where: ClusterSettings,
    namespace: str,
    namespace_labels: Sequence[str],
    config: Path | None,
) -> tuple[list[Manifest], Context]:
    """The objects and the context of a run, by the options of `subject`. Raises InputError and ToolError."""
    settings = options.settings(config, {})
    options.refuse_one_stdin(files, nodes)
    objects = read_objects(files)
    known = inventory.read(settings, where, nodes, "everything")
    labels = options.labels(namespace_labels)
    with reading(SettingsError):
        catalog = rules.topologies(settings)
        built = rules.build(settings, catalog=catalog)
        rule = TopologyPlacement(catalog, rules.topology_options(settings))
    ruleset = RuleSet([rule for rule in built.rules if rule.name == RULE], built.exceptions)
    if not ruleset.rules:
        say(f"the rule {RULE} is off: of what follows, nothing is done", err=True)
    return objects, Context(rule, ruleset, namespace, labels, known, settings)


def meaning(explained: Explained) -> str:
    """What becomes of a template's Pods, in a sentence without its end."""
    template, keeper, _ = explained
    placement, topology = template.placement, template.topology
    if not template.is_usable:
        return "what is asked for cannot be used"
    if topology is None or placement is None:
        return "a topology alone places nothing" if template.annotations.anything else "nothing is asked for"
    required = template.required is not None
    where = f"one {placement.called(topology)}" if placement.is_open else placement.called(topology)
    together = f"until all of them fit into {where}" if required else f"until all exist, and start close to {where}"
    kept = f"keeps its Pods in {where}" if required else f"draws its Pods to {where}"
    return {
        "gate": f"its Pods wait behind the gate {GATE} {together}",
        "affinity": f"Pod affinity {kept}; they are placed one by one",
        "kueue": f"Kueue places its Pods by {topology.called(placement.level)}",
        "workload": f"kube-scheduler starts all of its Pods in {where}, or none of them",
    }.get(keeper.way, keeper.reason)


def _data(explained: Explained, machines: Sequence[Machine] | None) -> dict[str, Any]:
    """What becomes of a template, for machines. machines: None where Nodes are not known."""
    template, keeper, shortage = explained
    topology, own = template.topology, template.own.values
    copied = zip(ANNOTATIONS, template.carries, own, strict=True)
    return {
        "path": template.path,
        "annotations": list(_annotations(template)),
        "topology": None if topology is None else topology.name,
        "levels": [] if topology is None else [topology.called(level) for level in topology.levels],
        **{
            name: {"level": topology.called(placement.level), "placement": placement.called(topology)}
            for name, placement in _placements(template)
            if topology is not None
        },
        "copied": {k: str(v) for k, v, was in copied if template.is_usable and v is not None and v != was},
        "way": keeper.way,
        "meaning": meaning(explained),
        "reason": keeper.reason if keeper.way else "",
        "never": "" if shortage is None else shortage.problem,
        **({} if machines is None else {"nodes": _nodes_data(template, machines)}),
    }


def _nodes_data(template: Template, machines: Sequence[Machine]) -> dict[str, Any]:
    allowed, domains = _landing(template, machines)
    told = [
        {
            "path": {template.topology.called(level): value for level, value in around},
            "nodes": count.nodes,
            "gpus": count.total,
            "free": count.free,
            "obstacles": dict(count.obstacles),
        }
        for around, count in domains
        if template.topology is not None
    ]
    return {"allowed": allowed, "all": len(machines), "domains": told}


def _template_text(explained: Explained, machines: Sequence[Machine] | None) -> Iterator[str]:
    template, data = explained.template, _data(explained, None)
    topology = template.topology
    yield style(data["path"] or "the Pod itself", bold=True)
    yield from (f"  {one['key']}: {one['value']}  ({one['path']})" for one in data["annotations"])
    if topology is not None:
        levels = []
        for level in topology.levels:
            marks = [
                f"{name} {placement.called(topology)}"
                for name, placement in _placements(template)
                if topology.position(placement.level) == topology.position(level)
            ]
            levels.append(f"{topology.called(level)} [{', '.join(marks)}]" if marks else topology.called(level))
        yield f"  Topology {topology.name} ({topology.source}), farthest first: {', '.join(levels)}."
    yield from (f"  The template gets {key}: {value}." for key, value in data["copied"].items())
    why = f" ({data['reason']})" if data["reason"] else ""
    yield f"  {data['way'] or 'Nothing is done'}: {data['meaning']}{why}."
    if data["never"]:
        yield style(f"  By the Nodes that there are it can never start: {data['never']}.", fg="red")
    if machines is not None:
        yield from _landing_text(template, machines)


def _landing_text(template: Template, machines: Sequence[Machine]) -> Iterator[str]:
    allowed, domains = _landing(template, machines)
    topology, placement = template.topology, template.placement
    yield f"  By their labels {allowed} of {counted(len(machines), 'Node')} may take the Pods{':' if domains else '.'}"
    if topology is None or placement is None:
        return
    values: dict[Level, set[str]] = {}
    for around, _ in domains:
        for level, value in around:
            values.setdefault(level, set()).add(value)
    # A domain is named by those levels that tell it from others.
    telling = {level for level, several in values.items() if len(several) > 1} | {placement.level}
    for around, count in domains[:_SHOWN]:
        named = [f"{topology.called(level)} {value}" for level, value in around if level in telling]
        if all(level != placement.level for level, _ in around):
            named.append(f"(no {topology.called(placement.level)})")
        gpus = counted(count.total, "GPU") if count.total else "no GPUs"
        free = gpus if count.free is None or not count.total else f"{count.free:,} of {gpus} free"
        parts = (counted(count.nodes, "Node"), free, noted(count))
        yield f"    {', '.join(named)}: {', '.join(part for part in parts if part)}"
    if len(domains) > _SHOWN:
        yield f"    and {counted(len(domains) - _SHOWN, 'domain')} more"


def _annotations(template: Template) -> Iterator[dict[str, str]]:
    for annotation, key in zip(template.annotations, ANNOTATIONS, strict=True):
        if annotation is not None:
            path = render((*annotation.holder, *annotation.within)) if annotation.key else annotation.path
            yield {"key": key, "value": str(annotation.value), "path": path}


def _placements(template: Template) -> Iterator[tuple[str, Placement]]:
    for name, placement in (("required", template.required), ("preferred", template.preferred)):
        if placement is not None:
            yield name, placement


def _landing(template: Template, machines: Sequence[Machine]) -> tuple[int, list[tuple[Domain, Count]]]:
    """On how many Nodes the Pods may land as far as labels decide, and these by the domains of the placement."""
    topology, placement = template.topology, template.placement
    demand = node_demand(template.spec)
    allowed = [machine for machine in machines if demand.allows(machine.node)]
    if placement is None or topology is None or not template.is_placed:
        return len(allowed), []
    levels = (*topology.above(placement.level), placement.level)
    inside: dict[Domain, list[Machine]] = {}
    for machine in allowed:
        labels = machine.node.labels
        if meets(labels, template.terms) and (topology.pool is None or topology.pool.matches(labels)):
            inside.setdefault(path(levels, labels), []).append(machine)
    ordered = sorted(inside.items(), key=lambda item: [natural(value) for _, value in item[0]])
    return sum(map(len, inside.values())), [(around, count_of(those)) for around, those in ordered]


class _Explanation(NamedTuple):
    """What becomes of an object and its templates. nothing: why there is nothing to explain, empty where there is.

    schemes: the levels that it names in the ways of other schedulers, each with what it comes to.
    """

    outcome: ObjectOutcome
    templates: tuple[Explained, ...]
    machines: Sequence[Machine] | None
    schemes: tuple[tuple[Mention, str], ...]
    nothing: str


@click.command("explain", short_help="Explain topology annotations: who keeps the Pods together, and why.")
@subject
@options.output
def command(output: str, **inputs: Any) -> None:
    """Explain topology annotations: which hold, who keeps the Pods together, and why.

    With Nodes it also says on how many of them the Pods may land.

    \b
    Examples:
      cks-admission topology explain -f train.yaml
      cks-admission topology explain -f train.yaml --nodes nodes.json
      cks-admission topology explain -f manifests/ --kubeconfig ~/.kube/config
    """
    objects, around = read(**inputs)
    explained = [_explain(written, around) for written in objects]
    lines = (line for explanation in explained for line in _text(explanation))
    show(output, lines, [_json(explanation) for explanation in explained])
    sys.exit(exits.OK if all(explanation.outcome.allowed for explanation in explained) else exits.REFUSED)


def _explain(given: Manifest, context: Context) -> _Explanation:
    request = context.request(given)
    facts = context.facts(request.namespace)
    explained = context.rule.explain(request, facts)
    row = context.rule.options.workloads.get(request.kind.group_kind)
    judge = Judge(context.rule.catalog(facts), facts.nodes())
    named = mentions(request.object, request.kind.group_kind, row)
    schemes = tuple((mention, judge.meaning(mention)) for mention in named if not judge.problem(mention))
    nothing = "" if explained or schemes else context.nothing(request)
    return _Explanation(
        decide(given, request, context.ruleset, facts), explained, context.known.machines, schemes, nothing
    )


def _text(explained: _Explanation) -> Iterator[str]:
    outcome = explained.outcome
    yield outcome.headline
    if explained.nothing:
        yield f"  Nothing is done: {explained.nothing}."
    for template in explained.templates:
        yield from ("  " + line for line in _template_text(template, explained.machines))
    for mention, meaning in explained.schemes:
        yield f"  {mention.path}: {mention.value}"
        yield f"    {meaning}."
    for warning in outcome.warnings:
        yield f"  {style('Warning:', fg='yellow')} {warning}"
    yield from ("  " + line for line in outcome.message.splitlines())


def _json(explained: _Explanation) -> dict[str, Any]:
    return {
        **explained.outcome.head,
        "nothing": explained.nothing,
        "templates": [_data(template, explained.machines) for template in explained.templates],
        "schemes": [
            {"path": mention.path, "value": mention.value, "reader": mention.reader, "meaning": meaning}
            for mention, meaning in explained.schemes
        ],
        "message": explained.outcome.message,
        "warnings": explained.outcome.warnings,
    }
