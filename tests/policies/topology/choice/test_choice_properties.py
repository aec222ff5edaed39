"""What holds for every choice."""

from __future__ import annotations

from random import Random

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.gangs import naive
from support.gangs.arraystock import ArrayStock, Bound, Machine
from support.gangs.smallclusters import HOSTNAME, KEY, PRIORITY, RACK, SUPERPOD, case, members

from policies.topology.choice.choice import Choice
from policies.topology.choice.ground.atlas import Atlas
from policies.topology.choice.ground.ground import Ground
from policies.topology.choice.survey import Survey, choose
from policies.topology.gang.gang import Gang
from policies.topology.gang.promise import Promise

SEEDS = st.integers(0, 1_000_000)
OTHER = replace(KEY, name="other")


def narrow(seed: int, level: int) -> Gang:
    """A gang that requires a level."""
    return Gang(KEY, "small", (SUPERPOD, RACK, HOSTNAME), members(Random(seed)), level)  # noqa: S311 - repeatable


def choice_of(machines: tuple[Machine | None, ...], gang: Gang, promises: tuple[Promise, ...] = ()) -> Choice:
    """The choice for one gang."""
    return choose([gang], ArrayStock(machines), promises)[0]


@given(SEEDS)
def test_a_placed_gang_fits(seed: int) -> None:
    """Pod by Pod, the gang fits on the Nodes of the address that it gets."""
    cluster = case(seed)
    choice = choice_of(cluster.machines, cluster.gang)
    assume(choice.outcome in {"fits", "preempts"})
    own = naive.inside(cluster.machines, choice.required)
    left = naive.free(cluster.machines, None if choice.outcome == "fits" else PRIORITY)
    assert naive.fits([(member, own) for member in cluster.gang.members], left)


@given(SEEDS, st.randoms(use_true_random=False))
def test_rows_mean_nothing(seed: int, random: Random) -> None:
    """The order of Nodes, and rows without a Node, change no choice, also beside promises."""
    cluster = case(seed)
    promise = Promise(OTHER, (), narrow(seed + 1, 0).members, 0.0)
    rows: list[Machine | None] = [*cluster.machines, None, None]
    random.shuffle(rows)
    assert choice_of(tuple(rows), cluster.gang, (promise,)) == choice_of(cluster.machines, cluster.gang, (promise,))


@given(SEEDS, SEEDS)
def test_what_is_remembered_changes_nothing(seed: int, other: int) -> None:
    """A survey that follows others gives the same choices as one that knows nothing."""
    atlas = Atlas()
    for number in (seed, other, seed):
        cluster = case(number)
        promise = Promise(OTHER, choice_of(cluster.machines, narrow(other, 0)).required, cluster.gang.members, 0.0)
        survey = Survey(ArrayStock(cluster.machines), (promise,), atlas)
        fresh = choice_of(cluster.machines, cluster.gang, (promise,))
        assert [survey.choose([cluster.gang])[0], survey.choose([cluster.gang])[0]] == [fresh, fresh]


@given(SEEDS, st.randoms(use_true_random=False))
def test_what_changes_little_is_as_if_from_scratch(seed: int, random: Random) -> None:
    """While Pods come and go, Nodes fail and promises begin and end, what is remembered changes no choice."""
    cluster, atlas = case(seed), Atlas()
    machines = list(cluster.machines)
    names = [replace(KEY, name=str(number)) for number in range(6)]
    promises = [Promise(key, (), narrow(seed, 0).members, 0.0) for key in names[:2]]
    for number in range(8):
        at = random.randrange(len(machines))
        if random.random() < 0.3:
            machines[at] = machines[at]._replace(ready=not machines[at].ready)
        elif random.random() < 0.7:
            machines[at] = machines[at]._replace(bound=(Bound({"cpu": random.randrange(4000), "pods": 1}, 10),))
        domain = choice_of(tuple(machines), narrow(seed + number, random.randrange(2))).required
        promises.append(Promise(random.choice(names), domain, narrow(seed + number, 0).members, random.random()))
        promises.pop(random.randrange(len(promises)))
        random.shuffle(promises)
        survey = Survey(ArrayStock(machines), tuple(promises), atlas)
        assert survey.choose([cluster.gang])[0] == choice_of(tuple(machines), cluster.gang, tuple(promises))


@given(SEEDS)
def test_a_domain_that_is_told_has_an_address(seed: int) -> None:
    """A level knows at once which of its domains have an address."""
    cluster = case(seed)
    addresses = Ground(ArrayStock(cluster.machines), (), Atlas()).addresses(cluster.gang.tiers)
    for level in range(len(cluster.gang.tiers)):
        domains = range(len(addresses.layout.first(level)))
        assert addresses.layout.is_told(level).tolist() == [bool(addresses.one(level, group)) for group in domains]


@given(SEEDS)
def test_a_kept_domain_stays(seed: int) -> None:
    """A gang keeps its domain, whatever else has come to run there."""
    cluster = case(seed)
    choice = choice_of(cluster.machines, cluster.gang)
    assume(choice.required)
    full = tuple(one._replace(bound=(Bound(one.amounts, 10),)) for one in cluster.machines)
    kept = choose([cluster.gang], ArrayStock(full), (), (choice.required,))[0]
    assert (kept.outcome, kept.required) == ("full", choice.required)


@given(SEEDS, SEEDS)
def test_gangs_nest(seed: int, other: int) -> None:
    """The domain of a wider gang contains the narrower one's, and all Pods fit there together."""
    machines = case(seed).machines
    wide, close = choose([narrow(seed, 0), narrow(other, 1)], ArrayStock(machines), ())
    assume({wide.outcome, close.outcome} == {"fits"})
    outer, inner = naive.inside(machines, wide.required), naive.inside(machines, close.required)
    assert [one.name for one in inner if one not in outer] == []
    pods = [(member, inner) for member in narrow(other, 1).members]
    pods += [(member, outer) for member in narrow(seed, 0).members]
    assert naive.fits(pods, naive.free(machines))


@given(SEEDS, SEEDS)
def test_promises_are_respected(seed: int, other: int) -> None:
    """A gang that fits beside a promised one leaves the other's Pods their room."""
    cluster = case(seed)
    earlier = replace(narrow(other, 1), key=OTHER)
    first = choice_of(cluster.machines, earlier)
    assume(first.outcome == "fits")
    promise = Promise(OTHER, first.required, earlier.members, 0.0)
    second = choice_of(cluster.machines, cluster.gang, (promise,))
    assume(second.outcome == "fits")
    pods = [(member, naive.inside(cluster.machines, first.required)) for member in earlier.members]
    pods += [(member, naive.inside(cluster.machines, second.required)) for member in cluster.gang.members]
    assert naive.fits(pods, naive.free(cluster.machines))


@given(SEEDS)
def test_what_is_its_own_does_not_count(seed: int) -> None:
    """A gang's own promise, and Pods of its own that are bound, change nothing for it."""
    cluster = case(seed)
    choice = choice_of(cluster.machines, cluster.gang)
    promise = Promise(KEY, choice.required, cluster.gang.members, 0.0)
    bound = tuple(one._replace(bound=(*one.bound, Bound({"cpu": 1, "pods": 1}, 10, KEY))) for one in cluster.machines)
    assert choice_of(bound, cluster.gang, (promise,)) == choice
