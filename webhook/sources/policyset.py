"""The policies in force: the contents of the sources, each accepted or refused as a whole. Pure.

A source is a directory of files or a ConfigMap. If it has errors, or contradicts the others, its last good contents
stay in force, so that a mistake removes no policy anywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from policies.admissionpolicy.documents.reader import Loaded, Part, together
from policies.admissionpolicy.model import Policy
from policies.kubernetes.release import NEWEST, Release
from webhook.sources import policyfiles
from webhook.sources.policyfiles import PolicyFiles


class Content(NamedTuple):
    """The contents of a source, or why it cannot be read. Contents with equal versions are equal."""

    version: str
    parts: tuple[Part, ...] = ()
    problem: str = ""


class PolicySet(Struct, frozen=True):
    """contents: what is in force, by source. refused: why the newest content is not in force, by source."""

    contents: Mapping[str, Content]
    files: PolicyFiles
    refused: Mapping[str, str]

    @property
    def versions(self) -> Mapping[str, str]:
        """The versions of what is in force, by source."""
        return {source: content.version for source, content in self.contents.items()}


EMPTY = PolicySet({}, policyfiles.of(Loaded()), {})


def updated(
    current: PolicySet,
    newest: Mapping[str, Content],
    today: date,
    reserved: Collection[str] = (),
    release: Release = NEWEST,
) -> PolicySet:
    """The set with the newest content of each source that has no errors.

    today: to warn of exceptions that have ended or soon will. reserved: names that no policy may have. release: the one
    by whose rules the policies are judged.
    """
    refused = {source: content.problem for source, content in newest.items() if content.problem}
    chosen = dict(newest)
    for source, content in newest.items():
        kept = _kept(current, source)
        if source in refused or content.version == kept.version:
            chosen[source] = kept
    for source, content in chosen.items():
        if taken := _taken(content, reserved):
            refused[source] = taken
            chosen[source] = _kept(current, source)
    while True:
        loaded, problems = _combined(chosen, current, today)
        if not problems:
            return PolicySet(chosen, policyfiles.of(loaded, release), refused)
        new = [source for source in problems if chosen[source] is not _kept(current, source)]
        gone = [source for source in current.contents if source not in chosen]
        if not new:
            # Unchanged sources need something that was removed, such as the policy of a binding.
            reason = "others need what is no longer there:\n" + "\n".join(problems.values())
            if gone:
                refused |= dict.fromkeys(gone, reason)
                chosen |= {source: current.contents[source] for source in gone}
                continue
            # Another source removed it, and it is unknown which one.
            changed = [
                source for source in {**current.contents, **chosen} if chosen.get(source) is not _kept(current, source)
            ]
            files = current.files._replace(release=release)
            return replace(current, files=files, refused={**dict.fromkeys(changed, reason), **refused})
        for source in new:
            refused[source] = problems[source]
            chosen[source] = _kept(current, source)


_NOTHING = Content("")


def _kept(current: PolicySet, source: str) -> Content:
    return current.contents.get(source, _NOTHING)


def _taken(content: Content, reserved: Collection[str]) -> str:
    """The problems of policies with reserved names; empty if there are none."""
    return "\n".join(
        f"{part.entry.place}: metadata.name: {part.entry.name!r} is the name of a built-in rule\n"
        "hint: give the policy another name"
        for part in content.parts
        if part.entry is not None and isinstance(part.entry.value, Policy) and part.entry.name in reserved
    )


def _combined(chosen: Mapping[str, Content], current: PolicySet, today: date) -> tuple[Loaded, dict[str, str]]:
    """The combined contents of the sources, and the problems by source.

    Of two objects with the same name the second one is reported, so unchanged sources come first.
    """
    kept = [source for source, content in chosen.items() if content is _kept(current, source)]
    order = [*kept, *(source for source in chosen if source not in kept)]
    first = together(_parts(chosen, order), complete=True)
    if not first.errors:
        return together(_parts(chosen, chosen), today, complete=True), {}
    names = {part.report.document.name: source for source in order for part in chosen[source].parts}
    problems: dict[str, list[str]] = {}
    for problem in first.errors:
        problems.setdefault(names[problem.file], []).append(str(problem))
    return first, {source: "\n".join(lines) for source, lines in problems.items()}


def _parts(chosen: Mapping[str, Content], order: Iterable[str]) -> Sequence[Part]:
    return [part for source in order for part in chosen[source].parts]
