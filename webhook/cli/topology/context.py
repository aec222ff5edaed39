"""What the fate of an object's topology annotations depends on: the rule, its topologies, the Nodes, the Namespace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import click

from policies.engine.facts import StaticFacts
from policies.engine.request import AdmissionRequest, UserInfo, is_being_deleted, is_mirror_pod, is_owned
from policies.engine.ruleset import RuleSet
from policies.topology.rule import RULE, TopologyPlacement
from webhook.cli import options
from webhook.cli.check import in_namespace
from webhook.cli.exits import InputError
from webhook.cli.topology import stock
from webhook.cli.topology.inventory import Inventory
from webhook.cli.topology.stock import Chooser
from webhook.configuration import rules
from webhook.configuration.settings import Settings, SettingsError
from webhook.files import manifest
from webhook.files.manifest import Manifest


class Context(NamedTuple):
    """The topology rule, alone and as a rule set, and what it asks for. labels: of the objects' Namespaces.

    chooser: chooses domains by the Nodes that are known.
    """

    rule: TopologyPlacement
    ruleset: RuleSet
    namespace: str
    labels: Mapping[str, str]
    known: Inventory
    chooser: Chooser

    def request(self, given: Manifest) -> AdmissionRequest:
        """The request that would create an object."""
        who = UserInfo("user", groups=("system:authenticated",))
        return manifest.request(given.object, None, user=who, namespace=self.namespace, uid=given.where)

    def facts(self, namespace: str) -> StaticFacts:
        """The facts for what is in a Namespace."""
        nodes = tuple(machine.node for machine in self.known.machines or ())
        today = datetime.now(UTC).date()
        facts = StaticFacts(today, cluster_nodes=nodes, cluster_topologies=self.known.own, chooser=self.chooser)
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
            return f"a controller owns it; explain its owner: a translated {kind} would differ from what that wants"
        return "it has no topology annotations"


def context(settings: Settings, known: Inventory, namespace: str, labels: Sequence[str]) -> Context:
    """The context of a run. namespace, labels: as the options give them. Raises InputError."""
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
    return Context(rule, ruleset, namespace, given, known, stock.chooser(known.objects, settings))
