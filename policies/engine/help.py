"""Where a refusal is explained: a section of the pages for those who were refused, found by the words of the message.

A section quotes messages as people see them, with an ellipsis for what differs from case to case. So one list serves
both who pastes a message and the service, which ends its refusals and warnings with the address of the section.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from policies.engine.violation import Violation, describe, in_order

_SHOWN = 3
_SERVICE, _POLICY, _PACKS = "service", ("policies", "denied"), "packs"


class Section(Struct, frozen=True):
    """What a page says about some messages. code: its heading; text: all of it, as Markdown."""

    page: str
    code: str
    messages: tuple[str, ...]
    text: str

    @property
    def name(self) -> str:
        """What people call it: `labels/reserved-label`."""
        return f"{self.page}/{self.code}"

    def likeness(self, text: str) -> int:
        """How many characters of a message the text has, all its fixed parts in their order; 0 if one is missing."""
        squeezed = _squeezed(text)
        return max((_likeness(message, squeezed) for message in self.messages), default=0)


class Help(Struct, frozen=True):
    """The address of the pages, with `{page}` and `{code}`, and their sections; without an address nothing is said."""

    url: str = ""
    sections: tuple[Section, ...] = ()

    def lines(self, violations: Sequence[Violation], failure: str = "") -> tuple[str, ...]:
        """A line for each section about an answer: its violations, and what became of a rule that failed, by code."""
        if not self.url:
            return ()
        places = [*map(self._place, in_order(violations)), *([(_SERVICE, failure)] if failure else [])]
        return tuple(f"Read on: {self._address(*place)}" for place in list(dict.fromkeys(places))[:_SHOWN])

    def _place(self, violation: Violation) -> tuple[str, str]:
        """The page and code for a violation. A rule has the page of its name; a policy that is shipped, a section."""
        of_rule = [section for section in self.sections if section.page == violation.rule]
        if of_rule:
            section = likest(of_rule, describe([violation]))
            return violation.rule, section.code if section else ""
        shipped = (_PACKS, violation.rule)
        return shipped if any((section.page, section.code) == shipped for section in self.sections) else _POLICY

    def _address(self, page: str, code: str) -> str:
        return self.url.replace("{page}", page).replace("{code}", code).rstrip("#")


NO_HELP = Help()


def likest(sections: Iterable[Section], text: str) -> Section | None:
    """The section of whose messages the text has most; None if it has none. Of several, the first."""
    best = max(sections, key=lambda section: section.likeness(text), default=None)
    return best if best is not None and best.likeness(text) else None


def _likeness(message: str, text: str) -> int:
    position = 0
    parts = [part for part in map(_squeezed, message.split("…")) if part.strip(" .,:;()\"'")]
    for part in parts:
        at = text.find(part, position)
        if at < 0:
            return 0
        position = at + len(part)
    return sum(map(len, parts))


def _squeezed(text: str) -> str:
    return " ".join(text.split())
