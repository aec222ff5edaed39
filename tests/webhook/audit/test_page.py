"""The page of an audit."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from html import unescape
from html.parser import HTMLParser
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from policies.engine.violation import printable
from webhook.audit import page as pages
from webhook.audit.finding import Finding, Subject, Verdict
from webhook.audit.page import CHANGES, EXAMPLES, Overview, Tally, page

NOW = datetime(2026, 11, 26, 4, 30, tzinfo=UTC)
OVERVIEW = Overview("cluster prod", NOW, 20_000)


def finding(name: str = "web", verdict: Verdict = "deny", **more: str) -> Finding:
    """A finding on a Deployment of Namespace team. policy: what found it. message, until: of the finding."""
    subject = Subject("apps/v1", "Deployment", more.get("namespace", "team"), name)
    message, until = more.get("message", "no digest"), more.get("until", "")
    return Finding(subject, more.get("policy", "digest"), verdict, "spec.image", message, more.get("remedy", ""), until)


def tally(findings: Iterable[Finding]) -> Tally:
    """The counts of findings."""
    counts = Tally()
    for one in findings:
        counts.add(one)
    return counts


class Reader(HTMLParser):
    """What a browser makes of a page: the texts of each section, tags and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.unclosed: list[str] = []
        self.sections: dict[str, list[str]] = {"": []}
        self._section = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of a tag."""
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in ("meta", "br"):
            self.open.append(tag)
        if tag == "section":
            self._section = dict(attrs)["id"] or ""
            self.sections[self._section] = []

    def handle_endtag(self, tag: str) -> None:
        """Take note of the end of a tag."""
        if self.open.pop() != tag:
            self.unclosed.append(tag)
        if tag == "section":
            self._section = ""

    def handle_data(self, data: str) -> None:
        """Take note of a text."""
        if data.strip():
            self.sections[self._section].append(data.strip())

    def texts(self, section: str) -> str:
        """The texts of a section, with bars between them."""
        return "|".join(self.sections[section])


def test_an_audit_without_findings_says_so() -> None:
    """Where nothing is wrong the page says that, and has no section."""
    read = Reader(page(tally([]), OVERVIEW))
    assert "20,000 objects judged. Nothing is wrong." in read.texts("")
    assert list(read.sections) == [""]


def test_each_section_answers_its_question() -> None:
    """Policies, Namespaces and workloads have their counts, changes are told, and exceptions by their end."""
    found = [
        finding("web", remedy="Write image@sha256:…"),
        finding("api", "warn", policy="limits", message="no limits"),
        finding("job", "mutate", policy="tolerations", message="adds a toleration"),
        finding("old", "exempt", until="2027-01-04T23:59:59Z"),
        finding("older", "exempt", until="2026-11-20"),
        finding("ever", "exempt"),
        finding("last", "exempt", until="2026-11-26T12:00:00+00:00"),
    ]
    read = Reader(page(tally(found), Overview("files", NOW, 1, ("Policy p reads oldObject.",))))
    assert {name: read.texts(name) for name in read.sections if name} == {
        "policies": "By policy|digest|1 refused|4 excepted|Object|What is wrong|Deployment|team/web|refused|spec.image|"
        "no digest|Write image@sha256:…|limits|1 warned|Object|What is wrong|Deployment|team/api|warned|spec.image|"
        "no limits|tolerations|1 changed|Its findings are in the sections below.",
        "namespaces": "By namespace|Namespace|Policies|refused|failed|warned|recorded|changed|excepted|team|digest|,|"
        "limits|,|tolerations|1|0|1|0|1|4",
        "workloads": "By workload|Namespace|Workload|Policies|refused|failed|warned|recorded|changed|excepted"
        "|team|Deployment/web|digest|1|0|0|0|0|0"
        "|team|Deployment/api|limits|0|0|1|0|0|0"
        "|team|Deployment/ever|digest|0|0|0|0|0|1"
        "|team|Deployment/job|tolerations|0|0|0|0|1|0"
        "|team|Deployment/last|digest|0|0|0|0|0|1"
        "|team|Deployment/old|digest|0|0|0|0|0|1"
        "|team|Deployment/older|digest|0|0|0|0|0|1",
        "changes": "What admission would change today|Object|Policy|Change|Deployment|team/job|tolerations|spec.image|"
        "adds a toleration",
        "exceptions": "Exceptions, and when they end|Object|Policy|Ends|What it lets pass"
        "|Deployment|team/older|digest|2026-11-20|ended|spec.image|no digest"
        "|Deployment|team/last|digest|2026-11-26T12:00:00+00:00|today|spec.image|no digest"
        "|Deployment|team/old|digest|2027-01-04|in 39 days|spec.image|no digest"
        "|Deployment|team/ever|digest|never|spec.image|no digest",
        "notes": "What was not judged|Policy p reads oldObject.",
    }
    assert read.texts("").endswith(
        "files|· 2026-11-26 04:30 UTC|1 object judged: 7 findings of 3 policies, in 7 workloads.|1|refused|0|failed|"
        "1|warned|0|recorded|1|changed|4|excepted|Each object was judged as if somebody created it at that time."
    )


def test_few_findings_are_shown_at_once() -> None:
    """A page with few findings, which may be printed, opens all policies; one with many opens none."""
    opened = [
        Reader(page(tally(finding(f"web-{i}", policy=f"p{i}") for i in range(number)), OVERVIEW)).attributes
        for number in (50, 51)
    ]

    assert ["open" in attributes for attributes in opened] == [True, False]


def test_of_many_exceptions_the_soonest_are_shown() -> None:
    """The exceptions that a page has room for are those that end first, wherever in the findings they are."""
    ends = [f"{2027 + i % 500}-01-01" for i in range(2 * CHANGES)]
    read = Reader(page(tally(finding(f"w{end}", "exempt", until=end) for end in reversed(ends)), OVERVIEW))
    shown = [text for text in read.sections["exceptions"] if text.endswith("-01-01") and "/" not in text]
    assert shown == sorted(ends)[:CHANGES]


def test_many_findings_make_no_large_page() -> None:
    """Of ten times as many findings the page shows as many, and counts the rest."""
    sizes = {}
    for number in (10_000, 100_000):
        found = (
            finding(f"web-{i}", ("deny", "mutate", "exempt")[i % 3], policy=f"p{i % 10}", namespace=f"n{i % 500}")
            for i in range(number)
        )
        text = page(tally(found), OVERVIEW)
        read = Reader(text)
        sizes[number] = len(text)
        assert read.texts("policies").count("more.") == 10
        assert f"… and {number // 3 - CHANGES:,} changes more." in read.texts("changes")
        assert f"… and {number - pages.ROWS:,} workloads more." in read.texts("workloads")
        assert "… and 300 namespaces more." in read.texts("namespaces")
        assert text.count('<span class="kind">') == 10 * EXAMPLES + 2 * CHANGES
    assert sizes[100_000] < 1.05 * sizes[10_000] < 1_000_000


_HOSTILE = st.one_of(
    st.text(),
    st.sampled_from(
        [
            "</style><script>alert(1)</script>",
            '" onload="x',
            "<!--",
            "$style $$ ${place}",
            "\u202egnp.exe",
            "\ud800",
            "&lt;b&gt;",
        ]
    ),
)
_FINDINGS = st.builds(
    Finding,
    st.builds(Subject, _HOSTILE, _HOSTILE, _HOSTILE, _HOSTILE, _HOSTILE, _HOSTILE),
    _HOSTILE,
    st.sampled_from(get_args(Verdict)),
    _HOSTILE,
    _HOSTILE,
    _HOSTILE,
    _HOSTILE,
)
_CALM = Reader(page(tally(finding(verdict=verdict) for verdict in get_args(Verdict)), Overview("p", NOW, 1, ("n",))))


@given(st.lists(_FINDINGS, max_size=4), _HOSTILE, _HOSTILE)
def test_words_stay_words(found: list[Finding], place: str, note: str) -> None:
    """No name, message, place or note adds a tag or an attribute, is lost, or keeps the page from being written."""
    text = page(tally(found), Overview(place, NOW, len(found), (note,)))
    text.encode()
    read = Reader(text)
    assert set(read.tags) <= set(_CALM.tags) | {"br"}
    assert read.attributes <= _CALM.attributes
    assert (read.open, read.unclosed) == ([], [])
    shown = unescape(text)
    for one in found:
        assert printable(one.message) in shown
        assert printable(one.subject.name) in shown
