"""What the fate of an object's topology annotations depends on: the rule, its topologies, the Nodes, the Namespace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import click
from msgspec.structs import replace

from policies.engine.facts import StaticFacts
from policies.engine.request import AdmissionRequest, UserInfo, is_being_deleted, is_mirror_pod, is_owned
from policies.engine.ruleset import RuleSet
from policies.topology.rule import RULE, TopologyPlacement
from webhook.cli import options
from webhook.cli.exits import InputError
from webhook.cli.objects.outcome import in_namespace, read_objects
from webhook.cli.topology import inventory
from webhook.cli.topology.inventory import ClusterOptions, Inventory
from webhook.configuration import rules
from webhook.configuration.settings import Settings, SettingsError
from webhook.files import manifest
from webhook.files.manifest import Manifest


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
            return f"a {kind} has no pod templates that are known"
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
    kubeconfig: str,
    in_cluster: bool,
    namespace: str,
    namespace_labels: Sequence[str],
    config: Path | None,
) -> tuple[list[Manifest], Context]:
    """The objects and the context of a run, by the options of `subject`. Raises InputError and ToolError."""
    settings = options.settings(config, {})
    options.refuse_one_stdin(files, nodes)
    objects = read_objects(files)
    known = inventory.read(settings, ClusterOptions(kubeconfig, in_cluster), nodes, "everything")
    return objects, _context(settings, known, namespace, options.labels(namespace_labels))


def _context(settings: Settings, known: Inventory, namespace: str, labels: Mapping[str, str]) -> Context:
    try:
        catalog = rules.topologies(settings)
        built = rules.build(settings, catalog=catalog)
        rule = TopologyPlacement(catalog, rules.topology_options(settings))
    except SettingsError as error:
        raise InputError(str(error)) from None
    ruleset = RuleSet([rule for rule in built.rules if rule.name == RULE], built.exceptions)
    if not ruleset.rules:
        click.echo(f"the rule {RULE} is off: of what follows, nothing is done", err=True)
    return Context(rule, ruleset, namespace, labels, known, settings)
