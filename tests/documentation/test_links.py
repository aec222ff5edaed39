"""The pages of the repository lead where they say, and each of them is in the navigation of the site."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from website.navigation import links, navigation

_ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^ *(```+|~~~+).*?^ *\1 *$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_ANCHOR = re.compile(r"\]\(([^)#\s:]*)#([^)\s]+)\)")


def _pages() -> list[str]:
    """All Markdown files, by their paths in the repository."""
    names = (path.relative_to(_ROOT).as_posix() for path in _ROOT.rglob("*.md"))
    return sorted(name for name in names if not re.search(r"(^|/)(\.|build/|node_modules/)", name))


@cache
def _text(page: str) -> str:
    """A page without its blocks of code."""
    return _BLOCK.sub("", (_ROOT / page).read_text(encoding="utf-8"))


@cache
def _anchors(page: str) -> frozenset[str]:
    """The anchors that code hosts and the site give to its headings."""
    anchors: list[str] = []
    for heading in _HEADING.findall(_text(page)):
        plain = re.sub(r"\]\([^)]*\)|[^\w\- ]", "", heading).strip().lower().replace(" ", "-")
        again = sum(re.fullmatch(rf"{re.escape(plain)}(-\d+)?", one) is not None for one in anchors)
        anchors.append(f"{plain}-{again}" if again else plain)
    return frozenset(anchors)


def test_links_lead_to_files() -> None:
    """Each relative link of a page names a file or a folder that is there."""
    targets = [(page, target) for page in _pages() for target in links(_text(page), page)]

    assert [(page, target) for page, target in targets if not (_ROOT / target).exists()] == []


def test_links_lead_to_headings() -> None:
    """Each link to a place on a page names a heading of it."""
    named = [(page, *link) for page in _pages() for link in _ANCHOR.findall(_text(page))]

    assert [link for link in named if link[2] not in _anchors((links(f"]({link[1]})", link[0]) or [link[0]])[0])] == []


def test_the_map_names_what_is_there() -> None:
    """Each file that the page of the architecture names exists, and so does each module of the pages about it."""
    named = re.findall(r"`((?:\w+/)+[\w.]*)`", _text("docs/architecture.md"))
    modules = [f"/{path.relative_to(_ROOT)}" for path in _ROOT.glob("[cptw]*/**/*.py")]
    pages = "".join(_text(page) for page in _pages() if page.startswith("docs/internals/"))

    assert len(named) > 20
    assert [path for path in named if not (_ROOT / path).exists()] == []
    inside = re.findall(r"`((?:\w+/)*\w+\.py)`", pages)
    assert [name for name in inside if not any(path.endswith(f"/{name}") for path in modules)] == []


def test_every_page_is_in_the_navigation() -> None:
    """Each page of docs/ is linked from docs/pages.md, whose sections are the navigation: the three doors first."""
    entries = navigation(_text("docs/pages.md"))
    sections = {title: pages for entry in entries if isinstance(entry, dict) for title, pages in entry.items()}
    linked = {"docs/index.md", "docs/pages.md"}.union(*sections.values())

    assert list(sections)[:3] == ["I was refused", "I write policies", "I run the cluster"]
    assert [page for page in _pages() if page.startswith("docs/") and page not in linked] == []


def test_blocks_in_lists_are_read_alike() -> None:
    """Code in an item of a list is indented by four: the site's parser takes it for text of the page otherwise."""
    odd = re.compile(r"^ {1,3}```", re.MULTILINE)

    assert [page for page in _pages() if odd.search((_ROOT / page).read_text(encoding="utf-8"))] == []


def test_the_site_is_reproducible() -> None:
    """What builds the site is pinned, with sums, and the lock files do not say where it came from."""
    locks = sorted((_ROOT / "requirements").glob("*.txt"))
    texts = {path.name: path.read_text(encoding="utf-8") for path in locks}

    assert set(texts) == {"dev.txt", "docs.txt", "runtime.txt"}
    assert [name for name, text in texts.items() if "--hash=sha256:" not in text or "://" in text] == []
