"""The navigation of the site: the first page, then the sections of docs/pages.md with what each links."""

from __future__ import annotations

import posixpath
import re

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#\s]+)[^)\s]*\)")


def links(text: str, page: str) -> list[str]:
    """The files and folders that a page links, as paths in the repository, each once; page: its own path there."""
    folder = posixpath.dirname(page)
    targets = (target for target in _LINK.findall(text) if ":" not in target)
    return list(dict.fromkeys(posixpath.normpath(posixpath.join(folder, target)) for target in targets))


def navigation(pages: str) -> list[str | dict[str, list[str]]]:
    """The first page, the sections of docs/pages.md, that page; a page linked twice stands where the first link is."""
    seen = {"docs/index.md", "docs/pages.md"}
    entries: list[str | dict[str, list[str]]] = ["docs/index.md"]
    parts = _SECTION.split(pages)
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        linked = [path for path in links(body, "docs/pages.md") if path not in seen]
        seen.update(linked)
        entries.append({title: linked})
    return [*entries, "docs/pages.md"]
