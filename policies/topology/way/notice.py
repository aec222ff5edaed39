"""What requesters are told of the choice of a domain: in warnings, refusals and the annotation with the decision.

The API server cuts a warning at 256 characters, so what is long is shortened here, and what to do is not.
"""

from __future__ import annotations

from msgspec import Struct

from policies.engine.violation import Violation, quote
from policies.kubernetes.spelling import with_article
from policies.topology.choice.choice import Candidate, Choice
from policies.topology.constraint import Constraint
from policies.topology.gang.address import Address
from policies.topology.placement import Domain, Placement
from policies.topology.refusal import RULE
from policies.topology.way.party import Party

LONGEST = 250
_REASON = 90


class Told(Struct, frozen=True):
    """A choice for a gang, and the kind of its workload."""

    party: Party
    choice: Choice
    kind: str

    @property
    def is_default(self) -> bool:
        """Whether no annotation of the author's asks for the placement."""
        return all(constraint.is_default for constraint in self.party.constraints)

    @property
    def asked(self) -> str:
        """What is asked for: `required "rack"`."""
        gang = self.party.gang
        kind, tier = ("preferred", gang.preferred) if gang.required is None else ("required", gang.required)
        return f"{kind} {quote(gang.tiers[tier or 0].name)}"

    @property
    def level(self) -> str:
        """The name of the level that is asked for."""
        gang = self.party.gang
        return gang.tiers[(gang.preferred if gang.required is None else gang.required) or 0].name

    @property
    def size(self) -> str:
        """The size of the gang: `8 Pods with 64 GPUs`, or, if it asks for none, `8 Pods with 32 CPUs`."""
        gang = self.party.gang
        cpus = sum(member.count * dict(member.requests).get("cpu", 0) for member in gang.members) / 1000
        number, noun = (gang.accelerators, "GPU") if gang.accelerators else (cpus, "CPU")
        return counted(gang.pods, "Pod") + (f" with {counted(number, noun)}" if number else "")

    def called(self, address: Address) -> str:
        """A domain as people write it: `superpod=2,rack=12`."""
        placement = Placement(tuple(Domain(self.party.levels[step.tier], step.values) for step in address))
        return shortened(placement.called(self.party.topology)) if address else ""


def chosen(told: Told) -> tuple[str, ...]:
    """The warning about a domain that was chosen; none for a default of the configuration."""
    choice = told.choice
    if told.is_default:
        return ()
    best = choice.considered[0] if choice.considered else None
    if choice.outcome == "full" and told.party.gang.required is not None:
        room = f" has {_room(best)};" if best else " is full;"
        lacks = _without_place(choice.pods_missing)
        wider = f" {told.called(choice.wider)} would fit;" if choice.wider else ""
        remedy = f"to choose again, delete the {told.kind} and create it again"
        problem = f"{told.asked}: {told.called(choice.required)}{room}{lacks}"
        hinted = f"{problem}{wider} {remedy}"
        return (hinted if len(hinted) <= LONGEST else f"{problem} {remedy}",)
    return (f"{told.asked}: {_sentence(told)}",)


def grown(told: Told) -> tuple[str, ...]:
    """The warning about a gang that has got more Pods than its domain has room for; none if they fit."""
    choice = told.choice
    if told.is_default or choice.outcome not in ("full", "never"):
        return ()
    room = f" has {_room(choice.considered[0])}" if choice.considered else " is full"
    remedy = f"the others wait there; to choose again, delete the {told.kind} and create it again"
    return (f"{told.asked}: {told.size} stay in {told.called(choice.required)}, which{room}; {remedy}",)


def decision(told: Told) -> tuple[str, ...]:
    """The sentence about a choice for the object's annotation; none if nothing was chosen."""
    return (_sentence(told),) if _address(told.choice) else ()


def later(told: Told, *, waits: bool) -> tuple[str, ...]:
    """The warning about a gang that is placed when its workload is resumed. waits: whether it has no room now."""
    if told.is_default:
        return ()
    if waits:
        can = "has room for" if told.choice.outcome == "full" else "can hold"
        now = " now" if told.choice.outcome == "full" else _largest(told.choice)
        return (f"{told.asked}: no {told.level} {can} {told.size}{now}, so it stays suspended: resume it later",)
    return (f"{told.asked}: the domain is chosen when it is resumed",)


def never(told: Told) -> str:
    """Why no domain can be chosen for a gang that is too large."""
    return f"no {told.level} can hold {told.size}{_largest(told.choice)}"


def refusal(told: Told) -> Violation:
    """The refusal of a gang that has no room."""
    constraint = told.party.constraints[0]
    annotation = constraint.annotations.required
    path, level = (annotation.path, told.level) if annotation else ("", told.level)
    if told.choice.outcome == "never":
        problem = f"no {level} can hold {told.size}{_largest(told.choice)}."
        return Violation(
            RULE, path, quote(level), problem, f"The {told.kind} can never be placed.",
            f"Require a level above {level}, or ask for less.",
        )  # fmt: skip
    best = told.choice.considered[0] if told.choice.considered else None
    problem = f"no {level} has room for {told.size} now{f': {_room(best)}' if best else ''}."
    return Violation(
        RULE, path, quote(level), problem, f"The {told.kind} cannot be placed now.",
        f"Create it again later, require a level above {level}, or ask for less.",
    )  # fmt: skip


def together(constraint: Constraint, reason: str) -> str:
    """The warning about a template that got Pod affinity."""
    return (
        f"{_asked(constraint)}: no domain was chosen{_because(reason)}; Pod affinity keeps its Pods together, "
        "which are placed one by one and may wait for ever"
    )


def apart(constraint: Constraint, reason: str) -> str:
    """The warning about a template whose Pods nobody keeps together."""
    placement = constraint.required if constraint.requires_level else constraint.preferred
    level = constraint.topology.called(placement.level) if constraint.topology and placement else ""
    if constraint.requires_level:
        kept = f"keeps Pods on Nodes that have {with_article(level)}, not in one {level}"
    else:
        kept = "draws no two Pods together"
    why = f"; no domain was chosen{_because(reason)}" if reason else ""
    return f"{_asked(constraint)} {kept}{why}: name the domain or use a gang scheduler"


def _asked(constraint: Constraint) -> str:
    is_required = constraint.requires_level
    placement = constraint.required if is_required else constraint.preferred
    level = constraint.topology.called(placement.level) if constraint.topology and placement else ""
    return f"{'required' if is_required else 'preferred'} {quote(level)}"


def _because(reason: str) -> str:
    return f" ({shortened(reason, _REASON)})" if reason else ""


def shortened(text: str, limit: int = 80) -> str:
    """The text, with an ellipsis in the place of what is too long."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def counted(number: float, noun: str) -> str:
    """A number of things."""
    return f"{number:.12g} {noun}{'' if number == 1 else 's'}"


def _sentence(told: Told) -> str:
    """The domain, what was free in it, and the runner-up."""
    choice, gang = told.choice, told.party.gang
    best = next(iter(choice.considered), None)
    address = _address(choice)
    if not address:
        return f"no domain holds {told.size} together"
    nearer = best.address[len(address) :] if best and best.fits else ()
    place = told.called(address) + (f", preferably {told.called(nearer)}" if nearer else "")
    room = f" ({best.free} of {best.total} GPUs free)" if best and gang.accelerators else ""
    others = [candidate for candidate in choice.considered[1:] if candidate.fits]
    runner_up = f"; next best {told.called(others[0].address)}" if others else ""
    room += " once Pods of lower priority make room" if choice.outcome == "preempts" else ""
    return f"{told.size} in {place}{room}{runner_up}"


def _without_place(pods: int) -> str:
    """What becomes of Pods for which there is no room."""
    if not pods:
        return " its Pods wait there;"
    return (
        f" {counted(pods, 'Pod')} {'has no place yet and waits' if pods == 1 else 'have no place yet and wait'} there;"
    )


def _address(choice: Choice) -> Address:
    """The domain that was chosen, or the nearest one that holds the gang; empty if there is none."""
    best = next(iter(choice.considered), None)
    return choice.required or (best.address if best and best.fits else ())


def _room(candidate: Candidate) -> str:
    promised = f" ({candidate.promised} of them promised to others)" if candidate.promised else ""
    free = f"{candidate.free} of {candidate.total} GPUs free{promised} and " if candidate.total else ""
    return f"{free}room for {counted(candidate.pods, 'Pod')}"


def _largest(choice: Choice) -> str:
    """What the best domain has, if nothing else ran there."""
    if not choice.considered:
        return ", as no Node is in one"
    best = choice.considered[0]
    gpus = f", with {counted(best.total, 'GPU')}," if best.total else ""
    return f", and the best one{gpus} holds {counted(best.pods, 'Pod')}"
