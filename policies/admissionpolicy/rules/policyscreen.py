"""Validating policies that are judged together: one look at a request finds those that may have something to say.

At first each policy is asked on its own whether it holds. What requests have turned out to need is then fused into one
generated function, on request, as that takes tenths of a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from policies.admissionpolicy.evaluation.fusing import part_of
from policies.admissionpolicy.evaluation.inputs import Json
from policies.admissionpolicy.evaluation.parameters import StaticParameters
from policies.admissionpolicy.evaluation.validator import holds, parameters_of
from policies.admissionpolicy.rules.boundpolicy import BoundPolicy, Key
from policies.admissionpolicy.rules.subject import Subject, SubjectCache
from policies.cel.generation.fusion import Fused, fuse
from policies.cel.values import Value
from policies.engine.facts import Facts
from policies.engine.interruption import TimeLimitError
from policies.engine.request import AdmissionRequest
from policies.engine.rule import Names

# A cluster writes some dozen kinds of objects all the time, in a few ways each.
_FUNCTIONS = 200
_KEYS = 4_000
# Python compiles a function while everything else waits, this many policies in some 5 to 10 ms.
_TOGETHER = 10


class Member(Struct, frozen=True):
    """A policy that is judged together with others.

    is_direct: whether it judges requests themselves. is_derived: whether it judges the Pods that would be created.
    """

    bound: BoundPolicy
    parameters: StaticParameters
    is_direct: bool
    is_derived: bool

    def evaluated(self, subject: Subject) -> tuple[Json | None, ...]:
        """The parameters with which the policy is evaluated. Raises MatchError, ConfigurationError, Missing, ...."""
        request = subject.request
        bindings = self.bound.matching(request, subject.selects, subject.key)
        if not bindings:
            return ()
        return parameters_of(self.bound.compiled, bindings, subject.parameters(self.parameters), request.namespace)

    def holds(self, subject: Subject) -> bool:
        """Whether the policy certainly has nothing to say. Raises what `evaluated` raises."""
        compiled = self.bound.compiled
        return all(holds(compiled, params, subject.inputs) for params in self.evaluated(subject))


class PolicyScreener:
    """Makes the screens of a rule set. members: its policies, by name."""

    def __init__(self, members: Mapping[str, Member], subjects: SubjectCache) -> None:
        self._members = members
        self._subjects = subjects
        self._panels: dict[tuple[str, ...], Panel] = {}
        self._waiting: deque[Panel] = deque()

    def screen(self, names: Sequence[str]) -> PolicyScreen:
        """The screen of some of the policies."""
        return PolicyScreen({name: self._members[name] for name in names}, self._subjects, self.panel)

    @property
    def is_waiting(self) -> bool:
        """Whether policies have been judged together that are not fused yet."""
        return bool(self._waiting)

    def prepare(self) -> None:
        """Fuse policies that have been judged together, which may take tenths of a second."""
        while self._waiting:
            self._waiting.popleft().fuse()

    def panel(self, members: Mapping[str, Member]) -> Panel:
        """The panel of some members: the same for the same names."""
        names = tuple(members)
        panel = self._panels.get(names)
        if panel is None:
            panel = Panel(members)
            if len(self._panels) < _FUNCTIONS:
                self._panels[names] = panel
                self._waiting.append(panel)
        return panel


class PolicyScreen:
    """Some policies that are judged together. names: theirs."""

    def __init__(
        self, members: Mapping[str, Member], subjects: SubjectCache, panel: Callable[[Mapping[str, Member]], Panel]
    ) -> None:
        self.names = Names(members)
        self._members = members
        self._subjects = subjects
        self._panel = panel
        self._is_derived = any(member.is_derived for member in members.values())
        self._panels: dict[tuple[Key, bool], Panel] = {}

    def asked(self, request: AdmissionRequest, facts: Facts) -> Collection[str]:
        """The policies that have something to say, or may have. Raises TimeLimitError."""
        subject = self._subjects.of(request, facts)
        asked = self._of(subject, derived=False).asked(subject)
        if self._is_derived:
            for pod in (pod for _, pods in subject.pods for pod in pods):
                asked += self._of(pod, derived=True).asked(pod)
        return asked + [name for name in self.names if name in facts.skipped] if facts.skipped else asked

    def _of(self, subject: Subject, *, derived: bool) -> Panel:
        """The panel for a request, or for a Pod that would be created."""
        panel = self._panels.get((subject.key, derived))
        if panel is None:
            panel = self._panel(
                {
                    name: member
                    for name, member in self._members.items()
                    if (member.is_derived if derived else member.is_direct)
                    and member.bound.may_match(subject.request, subject.key)
                }
            )
            if len(self._panels) < _KEYS:
                self._panels[subject.key, derived] = panel
        return panel


class Panel:
    """The policies that may apply to requests of a key: a function for every few of them, once they are fused."""

    def __init__(self, members: Mapping[str, Member]) -> None:
        self._groups = tuple(map(_Group, _batches(members.items())))

    def fuse(self) -> None:
        """Make the functions."""
        for group in self._groups:
            group.fuse()

    def asked(self, subject: Subject) -> list[str]:
        """The policies that have something to say, or may have. Raises TimeLimitError."""
        names = subject.inputs.lazily() if self._groups else {}
        return [name for group in self._groups for name in group.asked(subject, names)]


class _Group:
    """Some of the policies."""

    def __init__(self, members: Iterable[tuple[str, Member]]) -> None:
        self._members = tuple(members)
        self._function: Fused | None = None

    def fuse(self) -> None:
        self._function = fuse(
            [part_of(member.bound.compiled, is_selective=not member.bound.is_plain) for _, member in self._members]
        )

    def asked(self, subject: Subject, names: Mapping[str, Value]) -> Iterable[str]:
        function, members = self._function, self._members
        if function is None:
            return (name for name, member in members if not _sure(name, member, subject))
        asked: list[int] = []
        function(
            names,
            lambda position: members[position][1].evaluated(subject),
            lambda position: members[position][1].holds(subject),
            asked,
            subject.facts.expired,
            lambda error, position: error.blame(members[position][0]),
        )
        return [members[position][0] for position in asked]


def _sure(name: str, member: Member, subject: Subject) -> bool:
    """Whether a policy certainly has nothing to say."""
    try:
        return member.holds(subject)
    except TimeLimitError as error:
        error.blame(name)
        raise
    except Exception:  # noqa: BLE001 - the rule itself raises it again, where it counts
        return False


def _batches(members: Iterable[tuple[str, Member]]) -> Iterator[tuple[tuple[str, Member], ...]]:
    """The members, a few at a time."""
    remaining = iter(members)
    while batch := tuple(islice(remaining, _TOGETHER)):
        yield batch
