"""`cks-admission topology place|queue|release`: whether gangs would start now, and where; which wait."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec
from msgspec import Struct

from policies.engine.request import JsonObject, as_map, mapping
from policies.objects.fieldpath import lookup
from policies.topology.membership import LEADER_WORKER_SET, POD_CLIQUE_SET, podcount
from policies.topology.nodes.manifest import PodManifest
from policies.topology.placement import GATE
from policies.topology.rule import Explained, gangs
from policies.topology.template import Template
from policies.vocabulary import HOSTNAME
from webhook.cli import exits, options
from webhook.cli.exits import InputError
from webhook.cli.judging import ObjectOutcome, decide
from webhook.cli.output import counted, say, style, table, write
from webhook.cli.topology import inventory
from webhook.cli.topology.explain import Context, meaning, read, subject
from webhook.configuration.settings import ClusterSettings
from webhook.files.manifest import Manifest

if TYPE_CHECKING:
    from policies.topology.placer.opening import Opening
    from policies.topology.placer.placer import Placer, Subject, Waiting
    from webhook.cluster.api.client import Connection

_LATER: Final = 3600.0
_MOST_PODS: Final = 10_000
_MOST_REPLICAS: Final = 100
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_REPLICATED: Final = frozenset({LEADER_WORKER_SET, POD_CLIQUE_SET})
"""Kinds of which each replica starts by itself."""


class Gang(Struct, frozen=True):
    """What becomes of a gang. templates: paths of its pod templates. replica: its number, empty for the only one.

    way, reason: see `Explanation`. starts: whether all of its Pods start now; None where no placer decides. message: in
    words. ranks: the nearer domain of Pods by their ranks, as `0-7`, where they are spread over several.
    """

    templates: tuple[str, ...]
    asked: str
    way: str
    message: str
    replica: str = ""
    pods: int | None = None
    starts: bool | None = None
    ranks: tuple[tuple[str, str], ...] = ()


@click.command("place", short_help="Say whether gangs would start now, where, and what they wait for.")
@subject
@options.output
def command(output: str, **inputs: Any) -> None:
    """Say for each gang who keeps it together, whether it would start now, and in which domain each Pod would run.

    A gang may use what Pods leave free on the Nodes. Objects are placed in their order, and each takes its room from
    the next.

    \b
    Examples:
      kubectl get nodes,pods -A -o json > nodes.json
      cks-admission topology place -f train.yaml --nodes nodes.json
      cks-admission topology place -f train.yaml --kubeconfig ~/.kube/config -o json
    """
    objects, around = read(**inputs)
    placer: Placer | None = None
    if around.known.objects is None:
        say(
            f"nothing is placed without Nodes: give --kubeconfig, or --nodes with what {inventory.HOW} prints", err=True
        )
    else:
        if around.known.objects.pods is None:
            say(f"without Pods all of the Nodes counts as free; {inventory.HOW} gives them", err=True)
        placer = around.known.placer(around.settings)
    answers = [
        (outcome, list(_placed(outcome, explained, around, placer))) for outcome, explained in _all(objects, around)
    ]
    if output == "text":
        say(*(line for answer in answers for line in _text(*answer, around)))
    else:
        write([_data(outcome, gang) for outcome, made in answers for gang in made], output)
        for outcome, _ in answers:
            if not outcome.allowed:
                say(outcome.headline, *outcome.message.split("\n"), err=True)
    is_fine = all(outcome.allowed and all(gang.starts is not False for gang in made) for outcome, made in answers)
    sys.exit(exits.OK if is_fine else exits.REFUSED)


def _all(objects: Sequence[Manifest], around: Context) -> Iterator[tuple[ObjectOutcome, tuple[Explained, ...]]]:
    for given in objects:
        request = around.request(given)
        facts = around.facts(request.namespace)
        yield decide(given, request, around.ruleset, facts), around.rule.explain(request, facts)


def _placed(
    outcome: ObjectOutcome, explained: Sequence[Explained], around: Context, placer: Placer | None
) -> Iterator[Gang]:
    """The gangs of an object. Those behind the gate are placed by the placer, with Pods that are made up."""
    by_path = {one.template.path: one for one in explained if one.template.annotations.anything}
    for together in gangs([one.template for one in by_path.values()]):
        first, paths = by_path[together[0].path], tuple(one.path for one in together)
        keeper, asked = first.keeper, together[0].asked if together[0].placement is not None else ""
        if keeper.way != "gate" or placer is None or not outcome.allowed:
            yield Gang(paths, asked, keeper.way, meaning(first), starts=None if outcome.allowed else False)
            continue
        kind, obj = outcome.request.kind.group_kind, outcome.changed
        counts = [podcount(kind, obj, one.location) for one in together]
        pods = sum(count or 0 for count in counts)
        if None in counts or pods > _MOST_PODS:
            why = "the number of its Pods is not known" if None in counts else f"it has over {_MOST_PODS} Pods"
            yield Gang(paths, asked, keeper.way, f"{meaning(first)}; {why}")
            continue
        replicas = mapping(obj, "spec").get("replicas", 1) if kind in _REPLICATED else 1
        for number in range(min(replicas, _MOST_REPLICAS) if isinstance(replicas, int) else 1):
            replica = str(number) if kind in _REPLICATED else ""
            owner = f"{outcome.request.display_name}{f'-{replica}' if replica else ''}"
            starts, message, ranks = _start(placer, _pods(outcome, together, counts, owner, around))
            yield Gang(paths, asked, keeper.way, message, replica, pods, starts, ranks)


def _pods(
    outcome: ObjectOutcome, together: Sequence[Template], counts: Sequence[int | None], owner: str, around: Context
) -> list[JsonObject]:
    """The Pods of a gang as its controller would make them, in the order of their ranks."""
    kind = outcome.request.kind
    made: list[JsonObject] = []
    row = around.rule.options.workloads[kind.group_kind]
    controller = {
        "apiVersion": "cks-admission.dev/v1",
        "kind": kind.kind,
        "name": owner,
        "uid": owner,
        "controller": True,
    }
    for template, count in zip(together, counts, strict=True):
        written = row.view(outcome.changed, lookup(outcome.changed, template.location))
        metadata, spec = mapping(written, "metadata"), mapping(written, "spec")
        gates = [gate for gate in spec.get("schedulingGates") or () if as_map(gate).get("name") != GATE]
        for _ in range(count or 0):
            name = f"{owner}-{together[0].path}-{len(made):06}"
            annotations = {**mapping(metadata, "annotations"), _INDEX: str(len(made))}
            made.append(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {
                        "namespace": outcome.request.namespace,
                        "name": name,
                        "uid": name,
                        "labels": mapping(metadata, "labels"),
                        "annotations": annotations,
                        "ownerReferences": [controller],
                    },
                    "spec": {**spec, "schedulingGates": [*gates, {"name": GATE}]},
                }
            )
    return made


def _start(placer: Placer, pods: Sequence[JsonObject]) -> tuple[bool, str, tuple[tuple[str, str], ...]]:
    """Whether the placer opens these Pods now, what it says of that, and where Pods of neighbouring ranks would run."""
    if not pods:
        return True, "it has no Pods now", ()
    now = _LATER
    placer.look(now)  # what waits already comes first
    owner = pods[0]["metadata"]["ownerReferences"][0]["name"]
    try:
        for pod in pods:
            placer.put_pod(msgspec.convert(pod, PodManifest, strict=False), pod)
    except ValueError as error:
        reason = f"its Pods cannot be read: {error}"
    else:
        look = placer.look(now)
        openings = {opening.name: opening for opening in look.openings}
        if all(pod["metadata"]["name"] in openings for pod in pods):
            message = next((placed.message for placed in look.placed if placed.about.name == owner), "it starts now.")
            return True, message.removesuffix("."), _ranks([openings[pod["metadata"]["name"]] for pod in pods])
        reason = next((waiting.reason for waiting in look.queue if waiting.about.name == owner), "it waits.")
    for pod in pods:
        placer.remove_pod(pod["metadata"].get("namespace", ""), pod["metadata"]["name"])
    return False, reason.removesuffix("."), ()


def _ranks(openings: Sequence[Opening]) -> tuple[tuple[str, str], ...]:
    """The nearer domains of Pods in the order of their ranks; none where there is one for all."""
    runs: list[tuple[int, int, str]] = []
    for rank, opening in enumerate(openings):
        domain = _domain(opening)
        if runs and runs[-1][2] == domain:
            runs[-1] = (runs[-1][0], rank, domain)
        else:
            runs.append((rank, rank, domain))
    told = tuple((f"{first}-{last}" if last > first else str(first), domain) for first, last, domain in runs)
    return told if len(told) > 1 else ()


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


def _text(outcome: ObjectOutcome, made: Sequence[Gang], around: Context) -> Iterator[str]:
    yield outcome.headline
    if not made:
        yield f"  Nothing is placed: {around.nothing(outcome.request)}."
    for gang in made:
        templates = f"replica {gang.replica}" if gang.replica else ", ".join(gang.templates) or "the Pod itself"
        yield style(f"  {templates}{f': {gang.asked}' if gang.asked else ''}", bold=True)
        verdict = {True: style("starts now: ", fg="green"), False: style("waits: ", fg="yellow")}
        started = "" if gang.starts is None or not gang.way else verdict[gang.starts]
        yield f"    {gang.way or 'nobody'}: {started}{gang.message}."
        yield from (f"    ranks {ranks}: {domain}" for ranks, domain in gang.ranks)
    for warning in outcome.warnings:
        yield f"  {style('Warning:', fg='yellow')} {warning}"
    yield from ("  " + line for line in outcome.message.splitlines())


def _data(outcome: ObjectOutcome, gang: Gang) -> dict[str, Any]:
    ranks = [{"ranks": ranks, "domain": domain} for ranks, domain in gang.ranks]
    told = {**msgspec.structs.asdict(gang), "templates": list(gang.templates), "ranks": ranks}
    return {**outcome.head, **told, "refusal": outcome.message, "warnings": outcome.warnings}


_HEAD = ("GANG", "LEVEL", "PODS", "WAITS", "KEPT FREE")
_WHICH = "which cluster? Give --kubeconfig FILE, or --in-cluster in a Pod"
_FITS = "If it stays here, no placer works: cks-admission doctor says what is wrong."


@click.command("queue")
@inventory.cluster
@options.output
@options.config
def queue_command(where: ClusterSettings, output: str, config: Path | None) -> None:
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
    if output != "text":
        fits = [
            {
                "gang": _gang(one.about),
                "position": 0,
                "level": one.level,
                "pods": one.pods,
                "existing": one.pods,
                "since": now - one.seconds,
                "fits": one.message,
            }
            for one in look.placed
        ]
        write([*fits, *map(_waiting, look.queue)], output)
        return
    if not (look.placed or look.queue):
        say("no gang waits")
        return
    rows, reasons = [], []
    for placed in look.placed:
        rows.append((_called(placed.about), placed.level, str(placed.pods), _span(placed.seconds), ""))
        reasons.append(f"It fits now: {placed.message.rstrip('.')}. {_FITS}")
    for one in look.queue:
        pods = f"{one.existing}/{one.pods}" if one.existing < one.pods else str(one.pods)
        rows.append((_called(one.about), one.level, pods, _span(now - one.since), one.kept))
        reasons.append(one.reason)
    first, *lines = table(_HEAD, rows, right=(2, 3))
    say(first)
    for line, reason in zip(lines, reasons, strict=True):
        say(line, f"  {reason}")


def _called(about: Subject) -> str:
    return f"{about.kind} {about.namespace}/{about.name}"


def _span(seconds: float) -> str:
    """A span of time as kubectl shows ages."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def _gang(about: Subject) -> dict[str, str]:
    return {"apiVersion": about.api_version, "kind": about.kind, "namespace": about.namespace, "name": about.name}


def _waiting(waiting: Waiting) -> dict[str, Any]:
    return {
        "gang": _gang(waiting.about),
        **{name: getattr(waiting, name) for name in ("position", "behind", "level", "required", "pods", "existing")},
        "since": waiting.since,
        "keptFree": waiting.kept,
        "overdue": waiting.overdue,
        "reason": waiting.reason,
    }


@click.command("release")
@inventory.cluster
@click.option("-n", "--namespace", default="", help="Only Pods of this Namespace.")
@click.option("--service-account", default="", metavar="DIRECTORY", help="Where token and ca.crt are, if elsewhere.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def release_command(where: ClusterSettings, namespace: str, service_account: str, *, yes: bool) -> None:
    """Open the gates of all Pods that wait for the placer, without placing them.

    The Pods then go to any Node that has room, and may leave their gang. Use it for a cluster that goes on without a
    placer; uninstalling the chart does it.

    \b
    Example:
      cks-admission topology release --kubeconfig ~/.kube/config
    """
    if not where.is_given:
        raise InputError(_WHICH)
    from webhook.cluster.placer.gates import gated, release  # noqa: PLC0415 - loads the client

    async def open_all(api: Connection) -> int:
        pods = await gated(api, namespace)
        if pods and not yes and sys.stdin.isatty():
            click.confirm(f"Open the gates of {counted(len(pods), 'Pod')}, wherever these then go?", abort=True)
        opened = 0
        for pod in pods:
            if await release(api, pod):
                opened += 1
                say(f"{pod.namespace}/{pod.name}")
        return opened

    account = where.model_copy(update={"service_account": service_account})
    say(f"{counted(options.of_cluster(account, open_all), 'gate')} opened")
