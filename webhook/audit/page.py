"""Counts of findings by policy, Namespace and workload, with the first few of each."""

from __future__ import annotations

from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from html import escape
from importlib import resources
from string import Template
from typing import Final, TypeVar

from msgspec import Struct, field

from policies.engine.violation import listed, printable
from policies.objects.workload import plural
from webhook.audit.finding import Finding, Subject, Verdict

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


K = TypeVar("K")

ROWS: Final = 200
"""How many rows a table of groups has."""
_OPEN: Final = 50
"""Up to how many findings the page shows all at once; with more, a reader opens the policy that he looks for."""
_VERDICTS: Final[Mapping[Verdict, tuple[str, str]]] = {
    "deny": ("refused", "Admission would refuse the object today."),
    "error": ("failed", "A policy could not be evaluated."),
    "warn": ("warned", "Admission would let it pass with a warning."),
    "audit": ("recorded", "Admission would let it pass and record it in the audit log."),
    "mutate": ("changed", "Admission would change the object today."),
    "exempt": ("excepted", "An exception lets the object pass."),
}
_CLUSTER_WIDE: Final = "(cluster-wide)"


class Overview(Struct, frozen=True):
    """What an audit was of.

    place: the cluster or the files. objects: how many were judged. notes: what was not judged, and why.
    """

    place: str
    made: datetime
    objects: int
    notes: tuple[str, ...] = ()


def page(counts: Tally, overview: Overview) -> str:
    """The page as HTML. Its size depends on the number of policies, not on that of findings."""
    made = overview.made.astimezone(UTC)
    sections = (
        _policies(counts),
        _groups("namespaces", "By namespace", ("Namespace",), _named(counts.namespaces)),
        _groups("workloads", "By workload", ("Namespace", "Workload"), _placed(counts.workloads)),
        _changes(counts.changes),
        _exceptions(counts.exceptions, made),
        _notes(overview.notes),
    )
    return Template(_resource("page.html")).substitute(
        style=_resource("page.css"),
        place=_text(overview.place),
        made=made.strftime("%Y-%m-%d %H:%M UTC"),
        verdict=_sentence(counts, overview.objects),
        tiles="".join(_tiles(counts)),
        sections="\n".join(section for section in sections if section),
    )


def _resource(name: str) -> str:
    return resources.files("webhook.audit").joinpath(name).read_text(encoding="utf-8")


def _text(words: str) -> str:
    """Words as HTML, on a line of their own direction. Unprintable characters would hide or turn what follows them."""
    return f"<bdi>{escape(printable(words))}</bdi>"


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def _sentence(counts: Tally, objects: int) -> str:
    total = counts.verdicts.total()
    judged = f"{_many(objects, 'object')} judged"
    if not total:
        return f"{judged}. Nothing is wrong."
    return (
        f"{judged}: {_many(total, 'finding')} of {_many(len(counts.policies), 'policy')}, "
        f"in {_many(len(counts.workloads), 'workload')}."
    )


def _tiles(counts: Tally) -> Iterator[str]:
    for verdict, (word, meaning) in _VERDICTS.items():
        number = counts.verdicts[verdict]
        kind = verdict if number else "none"
        yield f'<li class="tile {kind}" title="{escape(meaning)}"><b>{number:,}</b> {word}</li>'


def _section(name: str, title: str, content: str) -> str:
    return f'<section id="{name}"><h2>{title}</h2>\n{content}</section>' if content else ""


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]], *, numbers: int = 0) -> str:
    titles = tuple(heads)
    kinds = [""] * (len(titles) - numbers) + [' class="number"'] * numbers
    head = "".join(f'<th scope="col"{kind}>{title}</th>' for title, kind in zip(titles, kinds, strict=True))
    lines = ("".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(row, kinds, strict=True)) for row in rows)
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>\n'


def _rest(number: int, noun: str) -> str:
    return f'<p class="rest">… and {_many(number, noun)} more.</p>\n' if number else ""


def _badges(verdicts: Mapping[Verdict, int]) -> str:
    return " ".join(
        f'<span class="badge {verdict}">{verdicts[verdict]:,} {word}</span>'
        for verdict, (word, _) in _VERDICTS.items()
        if verdicts.get(verdict)
    )


def _policies(counts: Tally) -> str:
    ordered = _ordered(counts.policies)
    tag = "<details open>" if counts.verdicts.total() <= _OPEN else "<details>"
    shown = "".join(
        f"{tag}{_policy(name, group, counts.samples.get(name))}</details>\n" for name, group in ordered[:ROWS]
    )
    return _section("policies", "By policy", shown + _rest(max(len(ordered) - ROWS, 0), "policy"))


def _policy(name: str, group: Group, sample: Sample | None) -> str:
    head = f'<summary><span class="name">{_text(name)}</span> {_badges(group.verdicts)}</summary>'
    if sample is None:
        return f"{head}\n<p>Its findings are in the sections below.</p>\n"
    table = _table(("Object", "", "What is wrong"), map(_finding, sample.kept))
    return f"{head}\n{table}{_rest(sample.rest, 'finding')}"


def _finding(finding: Finding) -> tuple[str, str, str]:
    word, _ = _VERDICTS[finding.verdict]
    return _object(finding.subject), f'<span class="badge {finding.verdict}">{word}</span>', _words(finding)


def _words(finding: Finding) -> str:
    path = f"<code>{_text(finding.path)}</code> " if finding.path else ""
    remedy = f'<br><span class="remedy">{_text(finding.remedy)}</span>' if finding.remedy else ""
    return f"{path}{_text(finding.message)}{remedy}"


def _object(subject: Subject) -> str:
    name = f"{subject.namespace}/{subject.name}" if subject.namespace else subject.name
    own = f"{subject.kind}/{subject.name}"
    owner = f'<br><span class="owner">of {_text(subject.workload)}</span>' if subject.workload not in ("", own) else ""
    return f'<span class="kind">{_text(subject.kind)}</span> {_text(name)}{owner}'


def _ordered(groups: Mapping[K, Group]) -> list[tuple[K, Group]]:
    """The groups, those with the most refusals first."""
    return sorted(groups.items(), key=lambda item: (-item[1].verdicts["deny"], -item[1].total, item[0]))


def _named(namespaces: Mapping[str, Group]) -> list[tuple[tuple[str, ...], Group]]:
    return [((name or _CLUSTER_WIDE,), group) for name, group in _ordered(namespaces)]


def _placed(workloads: Mapping[tuple[str, str], Group]) -> list[tuple[tuple[str, ...], Group]]:
    return [((space or _CLUSTER_WIDE, name), group) for (space, name), group in _ordered(workloads)]


def _groups(name: str, title: str, heads: tuple[str, ...], groups: list[tuple[tuple[str, ...], Group]]) -> str:
    words = tuple(word for word, _ in _VERDICTS.values())
    rows = (
        (*map(_text, names), _top(group), *(f"{group.verdicts[verdict]:,}" for verdict in _VERDICTS))
        for names, group in groups[:ROWS]
    )
    table = _table((*heads, "Policies", *words), rows, numbers=len(words)) if groups else ""
    return _section(name, title, table + _rest(max(len(groups) - ROWS, 0), heads[-1].lower()))


def _top(group: Group) -> str:
    return listed([_text(name) for name in sorted(group.policies, key=lambda name: (-group.policies[name], name))])


def _changes(sample: Sample) -> str:
    table = _table(("Object", "Policy", "Change"), _rows(sample, _words)) if sample.kept else ""
    return _section("changes", "What admission would change today", table + _rest(sample.rest, "change"))


def _exceptions(sample: Sample, now: datetime) -> str:
    def end(finding: Finding) -> str:
        return _end(finding.until, now)

    rows = ((*row, _words(finding)) for row, finding in zip(_rows(sample, end), sample.kept, strict=True))
    table = _table(("Object", "Policy", "Ends", "What it lets pass"), rows) if sample.kept else ""
    return _section("exceptions", "Exceptions, and when they end", table + _rest(sample.rest, "object"))


def _rows(sample: Sample, last: Callable[[Finding], str]) -> Iterator[tuple[str, ...]]:
    for finding in sample.kept:
        yield _object(finding.subject), _text(finding.policy), last(finding)


def _end(until: str, now: datetime) -> str:
    """When an exception ends, and how far that is from now."""
    if not until:
        return '<span class="badge warn">never</span>'
    try:
        moment = datetime.fromisoformat(until)
    except ValueError:
        return _text(until)
    days = ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).days
    word = "ended" if days < 0 else "today" if days == 0 else f"in {_many(days, 'day')}"
    day = until.removesuffix("T23:59:59Z")  # as of most exceptions, which last until the end of a day
    return f'<span class="moment">{_text(day)}</span><br><span class="{"soon" if days < 14 else "owner"}">{word}</span>'


def _notes(notes: Iterable[str]) -> str:
    lines = "".join(f"<li>{_text(note)}</li>\n" for note in notes)
    return _section("notes", "What was not judged", lines and f"<ul>\n{lines}</ul>\n")
