"""Counts of findings by policy, Namespace and workload, with the first few of each."""

from __future__ import annotations

from bisect import insort
from collections import Counter, defaultdict
from typing import Final

from msgspec import Struct, field

from webhook.audit.finding import Finding, Verdict

EXAMPLES: Final = 50
"""How many findings of a policy are kept. Its further ones are counted."""
CHANGES: Final = 200
"""How many changes, and how many exceptions, are kept."""


class Sample(Struct):
    """The first findings of several. total: how many there are. limit: how many are kept."""

    limit: int
    kept: list[Finding] = field(default_factory=list)
    total: int = 0

    def add(self, finding: Finding) -> None:
        """Count a finding, and keep it if there is room."""
        self.total += 1
        if len(self.kept) < self.limit:
            self.kept.append(finding)

    @property
    def rest(self) -> int:
        """How many are not kept."""
        return self.total - len(self.kept)


class Soonest(Sample):
    """The exceptions that end first, in this order; those without an end are the last."""

    def add(self, finding: Finding) -> None:
        """Count an exception, and keep it if it ends before another one."""
        self.total += 1
        insort(self.kept, finding, key=lambda exception: (not exception.until, exception.until))
        del self.kept[self.limit :]


class Group(Struct):
    """What is counted for one policy, Namespace or workload. policies: how often each found something."""

    verdicts: Counter[Verdict] = field(default_factory=Counter)
    policies: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """How many findings there are."""
        return self.verdicts.total()


class Tally(Struct):
    """The counts of all findings. workloads: by Namespace, and kind and name. samples: the findings of each policy."""

    verdicts: Counter[Verdict] = field(default_factory=Counter)
    policies: dict[str, Group] = field(default_factory=lambda: defaultdict(Group))
    namespaces: dict[str, Group] = field(default_factory=lambda: defaultdict(Group))
    workloads: dict[tuple[str, str], Group] = field(default_factory=lambda: defaultdict(Group))
    samples: dict[str, Sample] = field(default_factory=lambda: defaultdict(lambda: Sample(EXAMPLES)))
    changes: Sample = field(default_factory=lambda: Sample(CHANGES))
    exceptions: Soonest = field(default_factory=lambda: Soonest(CHANGES))

    def add(self, finding: Finding) -> None:
        """Count a finding."""
        subject = finding.subject
        workload = subject.workload or f"{subject.kind}/{subject.name}"
        self.verdicts[finding.verdict] += 1
        for group in (
            self.policies[finding.policy],
            self.namespaces[subject.namespace],
            self.workloads[subject.namespace, workload],
        ):
            group.verdicts[finding.verdict] += 1
            group.policies[finding.policy] += 1
        if finding.verdict == "mutate":
            self.changes.add(finding)
        elif finding.verdict == "exempt":
            self.exceptions.add(finding)
        else:
            self.samples[finding.policy].add(finding)
