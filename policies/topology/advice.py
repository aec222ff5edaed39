"""Warnings about placements that are allowed and may not do what their author thinks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from policies.engine.facts import Node
from policies.engine.match import EVERYTHING
from policies.engine.violation import Violation
from policies.topology import wording
from policies.topology.annotation import Written
from policies.topology.catalog import Catalog
from policies.topology.placement import Placement
from policies.topology.reading import Reading
from policies.topology.scheduling import Schedulers
from policies.topology.term import Term, alternatives, meets
from policies.topology.topology import Topology


def advice(reading: Reading, catalog: Catalog, schedulers: Schedulers, nodes: Sequence[Node]) -> Iterator[Violation]:
    """The warnings about one template. nodes: those of the cluster, none where they are not known."""
    topology = reading.topology
    if topology is None:
        return
    for clash in catalog.clashes:
        if clash.first.name == topology.name:
            yield wording.clashing(clash.first.source, clash.second.source, topology.name)
    if reading.reader:
        if nodes and not topology.in_cluster:
            yield wording.not_in_cluster(topology, reading.reader)
    else:
        yield from _about_effect(reading, topology, schedulers)
    if nodes:
        yield from _about_nodes(reading, topology, nodes)


def _about_effect(reading: Reading, topology: Topology, schedulers: Schedulers) -> Iterator[Violation]:
    """What node affinity does not do."""
    asked, required = reading.asked, reading.required
    if asked.topology is not None and asked.required is None and asked.preferred is None:
        yield wording.topology_alone(asked.topology)
    if asked.required is None or required is None or reading.left:
        return
    name = topology.called(required.level)
    if schedulers.ignores_affinity(reading.template.value):
        yield wording.ignored(schedulers.name(reading.template.value), name)
    elif not required.domains[-1].values:
        yield wording.bare_level(asked.required, name)


def _about_nodes(reading: Reading, topology: Topology, nodes: Sequence[Node]) -> Iterator[Violation]:
    if topology.pool is not None and not any(topology.pool.matches(node.labels) for node in nodes):
        yield wording.empty_pool(topology)
    if topology.requirement != EVERYTHING and not _any_meets(alternatives((), topology.requirement), nodes):
        yield wording.unmet_requirement(topology)
        return
    for written, placement in (
        (reading.asked.required, reading.required),
        (reading.asked.preferred, reading.preferred),
    ):
        if written is not None and placement is not None:
            told = _about_placement(written, placement, topology, nodes)
            if told is not None:
                yield told
                return


def _about_placement(
    written: Written, placement: Placement, topology: Topology, nodes: Sequence[Node]
) -> Violation | None:
    """What is wrong with a placement on these Nodes: a level that they do not have, or domains that none is in."""
    for domain in placement.domains:
        keys = domain.level.keys
        if not any(key in node.labels for node in nodes for key in keys):
            return wording.no_label(written, topology.called(domain.level), keys)
    if not placement.is_named or _any_meets(alternatives(placement.domains, topology.requirement), nodes):
        return None
    keys = placement.level.keys
    around = alternatives(placement.domains[:-1], topology.requirement)
    known = {node.labels[key] for node in nodes if meets(node.labels, around) for key in keys if key in node.labels}
    return wording.no_domain(written, placement.called(topology), sorted(known, key=lambda value: (len(value), value)))


def _any_meets(terms: Sequence[Term], nodes: Sequence[Node]) -> bool:
    return any(meets(node.labels, terms) for node in nodes)
