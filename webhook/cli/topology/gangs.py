"""`cks-admission topology explain|place|queue|release`: who keeps gangs together and why, where they start, which wait.

Each answer is made once, as data for programs; what people read of it is made from that.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import msgspec
from msgspec.structs import replace

from policies.engine.facts import StaticFacts
from policies.engine.request import (
    AdmissionRequest,
    JsonObject,
    UserInfo,
    as_map,
    is_being_deleted,
    is_mirror_pod,
    is_owned,
    mapping,
)
from policies.engine.rule import RuleSet
from policies.objects.fieldpath import lookup, render
from policies.podspec import node_demand
from policies.topology.membership import LEADER_WORKER_SET, POD_CLIQUE_SET, podcount
from policies.topology.nodes.manifest import PodManifest
from policies.topology.nodes.tree import Machine, count, path
from policies.topology.nodes.tree import Path as Domain
from policies.topology.placement import ANNOTATIONS, GATE, meets
from policies.topology.rule import RULE, Explained, TopologyPlacement, gangs
from policies.topology.schemes import Judge, mentions
from policies.topology.template import Template
from policies.topology.topology import Level, natural
from policies.vocabulary import HOSTNAME
from webhook.cli import options
from webhook.cli.judging import ObjectOutcome, decide, in_namespace, read_objects
from webhook.cli.output import OK, REFUSED, InputError, counted, reading, say, show, style, table, write
from webhook.cli.topology import inventory
from webhook.cli.topology.drawing import noted
from webhook.cli.topology.inventory import Inventory
from webhook.configuration import rules
from webhook.configuration.settings import ClusterSettings, Settings, SettingsError
from webhook.files import manifest
from webhook.files.manifest import Manifest

if TYPE_CHECKING:
    from policies.topology.placer.opening import Opening
    from policies.topology.placer.placer import Placer, Subject
    from webhook.cluster.api.client import Connection


class Context(NamedTuple):
    """The topology rule, alone and as a rule set, and what it asks for. labels: of the objects' Namespaces."""

    rule: TopologyPlacement
    ruleset: RuleSet
    namespace: str
    labels: Mapping[str, str]
    known: Inventory
    settings: Settings

    def judged(self, given: Manifest) -> tuple[ObjectOutcome, tuple[Explained, ...], StaticFacts]:
        """What becomes of an object that is created, and of each of its templates; and the facts for that."""
        who = UserInfo("user", groups=("system:authenticated",))
        request = manifest.request(given.object, None, user=who, namespace=self.namespace, uid=given.where)
        request = replace(request, dry_run=False)
        today = datetime.now(UTC).date()
        facts = StaticFacts(today, cluster_nodes=self.known.nodes, cluster_topologies=self.known.own)
        facts = in_namespace(facts, request.namespace, self.labels)
        return decide(given, request, self.ruleset, facts), self.rule.explain(request, facts), facts

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


def _subject(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what objects a verb is about, and what their fate depends on; see `_read`."""
    files = click.option(
        "-f", "--filename", "files", multiple=True, required=True, metavar="FILE|DIR|-", help="Objects; repeatable."
    )
    namespace = click.option(
        "-n", "--namespace", default="default", show_default=True, help="Namespace of objects that name none."
    )
    return files(options.nodes(inventory.cluster(namespace(options.namespace_labels(options.config(command))))))


def _read(
    *, files: Sequence[str], nodes: Sequence[str], where: ClusterSettings, namespace: str,
    namespace_labels: Sequence[str], config: Path | None,
) -> tuple[list[Manifest], Context]:  # fmt: skip
    """The objects and the context of a run, by the options of `_subject`. Raises InputError and ToolError."""
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


@click.command("explain", short_help="Explain topology annotations: who keeps the Pods together, and why.")
@_subject
@options.output
def explain(output: str, **inputs: Any) -> None:
    """Explain topology annotations: which hold, who keeps the Pods together, and why.

    With Nodes it also says on how many of them the Pods may land.

    \b
    Examples:
      cks-admission topology explain -f train.yaml
      cks-admission topology explain -f train.yaml --nodes nodes.json
      cks-admission topology explain -f manifests/ --kubeconfig ~/.kube/config
    """
    objects, context = _read(**inputs)
    lines: list[str] = []
    data: list[dict[str, Any]] = []
    for given in objects:
        outcome, explained, facts = context.judged(given)
        request = outcome.request
        # The levels that it names in the ways of other schedulers, each with what it comes to.
        judge = Judge(context.rule.catalog(facts), facts.nodes())
        named = mentions(
            request.object, request.kind.group_kind, context.rule.options.workloads.get(request.kind.group_kind)
        )
        schemes = [
            {"path": one.path, "value": one.value, "reader": one.reader, "meaning": judge.meaning(one)}
            for one in named
            if not judge.problem(one)
        ]
        nothing = "" if explained or schemes else context.nothing(request)
        templates = [_template(one, context.known.machines) for one in explained]
        data.append({
            **outcome.head,
            "nothing": nothing,
            "templates": [template for template, _ in templates],
            "schemes": schemes,
            "message": outcome.message,
            "warnings": outcome.warnings,
        })  # fmt: skip
        lines += [outcome.headline, *([f"  Nothing is done: {nothing}."] if nothing else [])]
        lines += (f"  {line}" for _, written in templates for line in written)
        for one in schemes:
            lines += [f"  {one['path']}: {one['value']}", f"    {one['meaning']}."]
        lines += _end(outcome)
    show(output, lines, data)
    sys.exit(OK if all(one["allowed"] for one in data) else REFUSED)


def _end(outcome: ObjectOutcome) -> list[str]:
    """The last lines about an object: what whoever applies it is warned of, and the refusal."""
    warnings = [f"  {style('Warning:', fg='yellow')} {warning}" for warning in outcome.warnings]
    return [*warnings, *(f"  {line}" for line in outcome.message.splitlines())]


def _meaning(explained: Explained) -> str:
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


def _template(explained: Explained, machines: Sequence[Machine] | None) -> tuple[dict[str, Any], list[str]]:
    """What becomes of a template, as data and as lines. machines: None where Nodes are not known."""
    template, keeper, shortage = explained
    topology = template.topology
    data: dict[str, Any] = {"path": template.path, "annotations": []}
    lines = [style(template.path or "the Pod itself", bold=True)]

    # What is asked for, and where that is written.
    for annotation, key in zip(template.annotations, ANNOTATIONS, strict=True):
        if annotation is not None:
            place = render((*annotation.holder, *annotation.within)) if annotation.key else annotation.path
            data["annotations"].append({"key": key, "value": str(annotation.value), "path": place})
            lines.append(f"  {key}: {annotation.value}  ({place})")
    data |= {"topology": None if topology is None else topology.name, "levels": []}
    if topology is not None:
        asked = {"required": template.required, "preferred": template.preferred}
        placements = {name: placement for name, placement in asked.items() if placement is not None}
        data["levels"] = [topology.called(level) for level in topology.levels]
        for name, placement in placements.items():
            data[name] = {"level": topology.called(placement.level), "placement": placement.called(topology)}
        marked = []
        for level in topology.levels:
            here = (one for one in placements.items() if topology.position(one[1].level) == topology.position(level))
            marks = ", ".join(f"{name} {placement.called(topology)}" for name, placement in here)
            marked.append(f"{topology.called(level)} [{marks}]" if marks else topology.called(level))
        lines.append(f"  Topology {topology.name} ({topology.source}), farthest first: {', '.join(marked)}.")

    # What is done about it, and by whom.
    copied = zip(ANNOTATIONS, template.carries, template.own.values, strict=True)
    data |= {
        "copied": {k: str(v) for k, v, was in copied if template.is_usable and v is not None and v != was},
        "way": keeper.way,
        "meaning": _meaning(explained),
        "reason": keeper.reason if keeper.way else "",
        "never": "" if shortage is None else shortage.problem,
    }
    lines += (f"  The template gets {key}: {value}." for key, value in data["copied"].items())
    why = f" ({data['reason']})" if data["reason"] else ""
    lines.append(f"  {data['way'] or 'Nothing is done'}: {data['meaning']}{why}.")
    if shortage is not None:
        lines.append(style(f"  By the Nodes that there are it can never start: {shortage.problem}.", fg="red"))
    if machines is not None:
        data["nodes"], more = _landing(template, machines)
        lines += more
    return data, lines


# A placement in a large cluster leaves some hundred racks.
_SHOWN: Final = 12


def _landing(template: Template, machines: Sequence[Machine]) -> tuple[dict[str, Any], list[str]]:
    """On how many Nodes the Pods may land as far as labels decide, and these by the domains of the placement."""
    topology, placement = template.topology, template.placement
    demand = node_demand(template.spec)
    allowed = [machine for machine in machines if demand.allows(machine.node)]
    head = "  By their labels {} of " + counted(len(machines), "Node") + " may take the Pods"
    if placement is None or topology is None or not template.is_placed:
        return {"allowed": len(allowed), "all": len(machines), "domains": []}, [head.format(len(allowed)) + "."]
    levels = (*topology.above(placement.level), placement.level)
    inside: dict[Domain, list[Machine]] = {}
    for machine in allowed:
        labels = machine.node.labels
        if meets(labels, template.terms) and (topology.pool is None or topology.pool.matches(labels)):
            inside.setdefault(path(levels, labels), []).append(machine)
    domains = sorted(inside.items(), key=lambda item: [natural(value) for _, value in item[0]])
    # A domain is named by those levels that tell it from others.
    values: dict[Level, set[str]] = {}
    for level, value in (step for around, _ in domains for step in around):
        values.setdefault(level, set()).add(value)
    telling = {level for level, several in values.items() if len(several) > 1} | {placement.level}
    data, lines = [], []
    for around, members in domains:
        amount = count(members)
        data.append({
            "path": {topology.called(level): value for level, value in around},
            "nodes": amount.nodes,
            "gpus": amount.total,
            "free": amount.free,
            "obstacles": dict(amount.obstacles),
        })  # fmt: skip
        named = [f"{topology.called(level)} {value}" for level, value in around if level in telling]
        if all(level != placement.level for level, _ in around):
            named.append(f"(no {topology.called(placement.level)})")
        gpus = counted(amount.total, "GPU") if amount.total else "no GPUs"
        free = gpus if amount.free is None or not amount.total else f"{amount.free:,} of {gpus} free"
        parts = (counted(amount.nodes, "Node"), free, noted(amount))
        lines.append(f"    {', '.join(named)}: {', '.join(part for part in parts if part)}")
    more = [f"    and {counted(len(lines) - _SHOWN, 'domain')} more"] if len(lines) > _SHOWN else []
    landing = sum(map(len, inside.values()))
    whole = {"allowed": landing, "all": len(machines), "domains": data}
    return whole, [f"{head.format(landing)}{':' if domains else '.'}", *lines[:_SHOWN], *more]


_LATER: Final = 3600.0
_MOST_PODS: Final = 10_000
_MOST_REPLICAS: Final = 100
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_REPLICATED: Final = frozenset({LEADER_WORKER_SET, POD_CLIQUE_SET})
"""Kinds of which each replica starts by itself."""


@click.command("place", short_help="Say whether gangs would start now, where, and what they wait for.")
@_subject
@options.output
def place(output: str, **inputs: Any) -> None:
    """Say for each gang who keeps it together, whether it would start now, and in which domain each Pod would run.

    A gang may use what Pods leave free on the Nodes. Objects are placed in their order, and each takes its room from
    the next.

    \b
    Examples:
      kubectl get nodes,pods -A -o json > nodes.json
      cks-admission topology place -f train.yaml --nodes nodes.json
      cks-admission topology place -f train.yaml --kubeconfig ~/.kube/config -o json
    """
    objects, context = _read(**inputs)
    placer: Placer | None = None
    if context.known.objects is None:
        how = f"--nodes with what {inventory.HOW} prints"
        say(f"nothing is placed without Nodes: give --kubeconfig, or {how}", err=True)
    else:
        if context.known.objects.pods is None:
            say(f"without Pods all of the Nodes counts as free; {inventory.HOW} gives them", err=True)
        placer = context.known.placer(context.settings)
    lines: list[str] = []
    data: list[dict[str, Any]] = []
    refusals: list[str] = []
    for given in objects:
        outcome, explained, _ = context.judged(given)
        placed = list(_placed(outcome, explained, context, placer))
        data += ({**outcome.head, **gang, "refusal": outcome.message, "warnings": outcome.warnings} for gang in placed)
        refusals += [] if outcome.allowed else [outcome.headline, *outcome.message.split("\n")]
        lines.append(outcome.headline)
        if not placed:
            lines.append(f"  Nothing is placed: {context.nothing(outcome.request)}.")
        for gang in placed:
            called = f"replica {gang['replica']}" if gang["replica"] else ", ".join(gang["templates"])
            asked = f": {gang['asked']}" if gang["asked"] else ""
            lines.append(style(f"  {called or 'the Pod itself'}{asked}", bold=True))
            verdict = {True: style("starts now: ", fg="green"), False: style("waits: ", fg="yellow")}
            started = verdict.get(gang["starts"], "") if gang["way"] else ""
            lines.append(f"    {gang['way'] or 'nobody'}: {started}{gang['message']}.")
            lines += (f"    ranks {run['ranks']}: {run['domain']}" for run in gang["ranks"])
        lines += _end(outcome)
    show(output, lines, data)
    if output != "text":
        say(*refusals, err=True)
    sys.exit(REFUSED if refusals or any(gang["starts"] is False for gang in data) else OK)


def _placed(
    outcome: ObjectOutcome, explained: Sequence[Explained], context: Context, placer: Placer | None
) -> Iterator[dict[str, Any]]:
    """The gangs of an object. Those behind the gate are placed by the placer, with Pods that are made up.

    templates: paths of its pod templates. replica: its number, empty for the only one. starts: whether all of its Pods
    start now; None where no placer decides. ranks: the nearer domains of Pods, where they are spread over several.
    """
    by_path = {one.template.path: one for one in explained if one.template.annotations.anything}
    kind, obj = outcome.request.kind.group_kind, outcome.changed
    for together in gangs([one.template for one in by_path.values()]):
        first = by_path[together[0].path]
        gang: dict[str, Any] = {
            "templates": [one.path for one in together],
            "asked": together[0].asked if together[0].placement is not None else "",
            "way": first.keeper.way,
            "message": _meaning(first),
            "replica": "",
            "pods": None,
            "starts": None if outcome.allowed else False,
            "ranks": [],
        }
        if first.keeper.way != "gate" or placer is None or not outcome.allowed:
            yield gang
            continue
        counts = [podcount(kind, obj, one.location) for one in together]
        pods = sum(count or 0 for count in counts)
        if None in counts or pods > _MOST_PODS:
            why = "the number of its Pods is not known" if None in counts else f"it has over {_MOST_PODS} Pods"
            yield {**gang, "message": f"{gang['message']}; {why}"}
            continue
        replicas = mapping(obj, "spec").get("replicas", 1) if kind in _REPLICATED else 1
        for number in range(min(replicas, _MOST_REPLICAS) if isinstance(replicas, int) else 1):
            replica = str(number) if kind in _REPLICATED else ""
            owner = f"{outcome.request.display_name}{f'-{replica}' if replica else ''}"
            starts, message, ranks = _start(placer, _pods(outcome, together, counts, owner, context))
            yield {**gang, "message": message, "replica": replica, "pods": pods, "starts": starts, "ranks": ranks}


def _pods(
    outcome: ObjectOutcome, together: Sequence[Template], counts: Sequence[int | None], owner: str, context: Context
) -> list[JsonObject]:
    """The Pods of a gang as its controller would make them, in the order of their ranks."""
    kind = outcome.request.kind
    made: list[JsonObject] = []
    row = context.rule.options.workloads[kind.group_kind]
    about = {"apiVersion": "cks-admission.dev/v1", "kind": kind.kind, "name": owner, "uid": owner, "controller": True}
    for template, amount in zip(together, counts, strict=True):
        written = row.view(outcome.changed, lookup(outcome.changed, template.location))
        metadata, spec = mapping(written, "metadata"), mapping(written, "spec")
        gates = [gate for gate in spec.get("schedulingGates") or () if as_map(gate).get("name") != GATE]
        for _ in range(amount or 0):
            name = f"{owner}-{together[0].path}-{len(made):06}"
            head = {
                "namespace": outcome.request.namespace,
                "name": name,
                "uid": name,
                "labels": mapping(metadata, "labels"),
                "annotations": {**mapping(metadata, "annotations"), _INDEX: str(len(made))},
                "ownerReferences": [about],
            }
            gated = {**spec, "schedulingGates": [*gates, {"name": GATE}]}
            made.append({"apiVersion": "v1", "kind": "Pod", "metadata": head, "spec": gated})
    return made


def _start(placer: Placer, pods: Sequence[JsonObject]) -> tuple[bool, str, list[dict[str, str]]]:
    """Whether the placer opens these Pods now, what it says of that, and where Pods of neighbouring ranks would run."""
    if not pods:
        return True, "it has no Pods now", []
    placer.look(_LATER)  # what waits already comes first
    owner = pods[0]["metadata"]["ownerReferences"][0]["name"]
    try:
        for pod in pods:
            placer.put_pod(msgspec.convert(pod, PodManifest, strict=False), pod)
    except ValueError as error:
        reason = f"its Pods cannot be read: {error}"
    else:
        look = placer.look(_LATER)
        openings = {opening.name: opening for opening in look.openings}
        if all(pod["metadata"]["name"] in openings for pod in pods):
            message = next((placed.message for placed in look.placed if placed.about.name == owner), "it starts now.")
            domains = enumerate(_domain(openings[pod["metadata"]["name"]]) for pod in pods)
            ranks = []
            for domain, run in groupby(domains, lambda ranked: ranked[1]):
                first, *others = (str(rank) for rank, _ in run)
                ranks.append({"ranks": f"{first}-{others[-1]}" if others else first, "domain": domain})
            return True, message.removesuffix("."), ranks if len(ranks) > 1 else []
        reason = next((waiting.reason for waiting in look.queue if waiting.about.name == owner), "it waits.")
    for pod in pods:
        placer.remove_pod(pod["metadata"].get("namespace", ""), pod["metadata"]["name"])
    return False, reason.removesuffix("."), []


def _domain(opening: Opening) -> str:
    """The nearest domain that a Pod prefers, by the affinity that it gets."""
    affinity: JsonObject = next((one["value"] for one in opening.patch if one["path"] == "/spec/affinity"), {})
    wishes = mapping(affinity, "nodeAffinity").get("preferredDuringSchedulingIgnoredDuringExecution") or [{}]
    # The last two are those for the domain and for the Node, which says nothing about neighbours.
    for wish in reversed(wishes[-2:]):
        expressions = mapping(wish, "preference").get("matchExpressions") or []
        if not any(one["key"] == HOSTNAME for one in expressions):
            return ",".join(f"{one['key'].rpartition('/')[2]}={','.join(one.get('values', ()))}" for one in expressions)
    return ""


_WHICH: Final = "which cluster? Give --kubeconfig FILE, or --in-cluster in a Pod"
_FITS: Final = "If it stays here, no placer works: cks-admission doctor says what is wrong."


@click.command("queue")
@inventory.cluster
@options.output
@options.config
def queue(where: ClusterSettings, output: str, config: Path | None) -> None:
    """Show which gangs wait in a cluster: for what, since when, behind whom, and which domain is kept free.

    It reads the cluster once, decides as the placer does, and changes nothing. Gangs that fit now come first: the
    placer opens them within a second. One that stays there shows that no placer works.

    \b
    Example:
      cks-admission topology queue --kubeconfig ~/.kube/config
    """
    if not where.is_given:
        raise InputError(_WHICH)
    settings = options.settings(config, {})
    known = inventory.read(settings, where, (), "everything")
    now = time.time()
    look = known.placer(settings).look(now)
    data, rows, reasons = [], [], []

    def called(about: Subject) -> tuple[dict[str, str], str]:
        names = {"apiVersion": about.api_version, "kind": about.kind, "namespace": about.namespace, "name": about.name}
        return names, f"{about.kind} {about.namespace}/{about.name}"

    for placed in look.placed:
        names, gang = called(placed.about)
        data.append({
            "gang": names, "position": 0, "level": placed.level, "pods": placed.pods, "existing": placed.pods,
            "since": now - placed.seconds, "fits": placed.message,
        })  # fmt: skip
        rows.append((gang, placed.level, str(placed.pods), _span(placed.seconds), ""))
        reasons.append(f"It fits now: {placed.message.rstrip('.')}. {_FITS}")
    for one in look.queue:
        names, gang = called(one.about)
        data.append({
            "gang": names, "position": one.position, "behind": one.behind, "level": one.level,
            "required": one.required, "pods": one.pods, "existing": one.existing, "since": one.since,
            "keptFree": one.kept, "overdue": one.overdue, "reason": one.reason,
        })  # fmt: skip
        pods = f"{one.existing}/{one.pods}" if one.existing < one.pods else str(one.pods)
        rows.append((gang, one.level, pods, _span(now - one.since), one.kept))
        reasons.append(one.reason)
    if output != "text":
        write(data, output)
    elif not rows:
        say("no gang waits")
    else:
        head, *lines = table(("GANG", "LEVEL", "PODS", "WAITS", "KEPT FREE"), rows, right=(2, 3))
        say(head)
        for line, reason in zip(lines, reasons, strict=True):
            say(line, f"  {reason}")


def _span(seconds: float) -> str:
    """A span of time as kubectl shows ages."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


@click.command("release")
@inventory.cluster
@click.option("-n", "--namespace", default="", help="Only Pods of this Namespace.")
@click.option("--service-account", default="", metavar="DIRECTORY", help="Where token and ca.crt are, if elsewhere.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def release(where: ClusterSettings, namespace: str, service_account: str, *, yes: bool) -> None:
    """Open the gates of all Pods that wait for the placer, without placing them.

    The Pods then go to any Node that has room, and may leave their gang. Use it for a cluster that goes on without a
    placer; uninstalling the chart does it.

    \b
    Example:
      cks-admission topology release --kubeconfig ~/.kube/config
    """
    if not where.is_given:
        raise InputError(_WHICH)
    from webhook.cluster.placer import gates  # noqa: PLC0415 - loads the client

    async def open_all(api: Connection) -> int:
        pods = await gates.gated(api, namespace)
        if pods and not yes and sys.stdin.isatty():
            click.confirm(f"Open the gates of {counted(len(pods), 'Pod')}, wherever these then go?", abort=True)
        opened = 0
        for pod in pods:
            if await gates.release(api, pod):
                opened += 1
                say(f"{pod.namespace}/{pod.name}")
        return opened

    account = where.model_copy(update={"service_account": service_account})
    say(f"{counted(options.of_cluster(account, open_all), 'gate')} opened")
