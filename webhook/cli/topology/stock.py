"""Chooses domains by Nodes that were read once, from files or of a cluster, as the service does by those it watches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from policies.topology.gang.ledger import Ledger
from policies.topology.gang.lifetime import seconds
from policies.topology.gang.promise import Promise

from policies.engine.facts import StaticFacts
from policies.engine.request import JsonObject, mapping
from policies.topology.choice.choice import Choice, ChoiceKey
from policies.topology.gang.demand import Cluster
from webhook.cli.exits import reading
from webhook.cli.topology.nodefiles import Content, Objects, uncollected
from webhook.configuration import rules
from webhook.configuration.settings import Settings

Chooser = Callable[[ChoiceKey], tuple[Choice, ...]]


class Records(NamedTuple):
    """What workloads and Pods have on record. now: when that was so, in seconds since the epoch."""

    ledger: Ledger
    now: float

    @property
    def promises(self) -> tuple[Promise, ...]:
        """What is promised and not taken yet."""
        return tuple(self.ledger.promises(self.now))


def records(objects: Objects | None, settings: Settings) -> Records:
    """The records in what was read."""
    cluster = Cluster(StaticFacts(datetime.now(UTC).date()), rules.topology_options(settings).accelerators)
    ledger = Ledger(rules.workload_table(settings), cluster)
    if objects is None or not (objects.workloads or objects.contents):
        return Records(ledger, 0.0)
    pods = [_decoded(content) for content in objects.contents]
    for obj in (*objects.workloads, *pods):
        ledger.put(obj)
    now = objects.seconds
    return Records(ledger, _newest((*objects.workloads, *pods)) if now is None else now)


def chooser(objects: Objects | None, records: Records) -> Chooser:
    """Answers for what was read; without Nodes it chooses nothing, and says why.

    What it chooses for one gang is promised to it, but for dry runs: the next one does not get it. Raises InputError.
    """
    if objects is None:
        return lambda key: key.failure("there is no cluster to ask")
    from policies.topology.choice.survey import choose  # noqa: PLC0415 - loads numpy, which runs without Nodes do not need

    from policies.topology.nodes.inventory import Inventory  # noqa: PLC0415 - as above
    from webhook.cluster.inventory.keeper import Keeper  # noqa: PLC0415 - as above
    from webhook.cluster.inventory.resources import gang_of  # noqa: PLC0415 - as above

    stock = Inventory(gang_of)
    with reading(ValueError), uncollected():
        stock.replace_nodes(objects.nodes)
        stock.replace_pods(objects.pods or ())
    keeper = Keeper(stock, records.ledger, lambda: "", choose)
    return lambda key: keeper.answer(key, records.now)


def _decoded(content: Content) -> JsonObject:
    """A Pod. Those in the answer of an API server do not say what they are."""
    obj: JsonObject = msgspec.json.decode(content) if isinstance(content, msgspec.Raw) else content
    return {"apiVersion": "v1", "kind": "Pod", **obj}


def _newest(objects: Iterable[JsonObject]) -> float:
    """When the newest object was made: a file does not say when it was written, but not before that."""
    return max(seconds(mapping(obj, "metadata").get("creationTimestamp")) for obj in objects)
