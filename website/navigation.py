"""The navigation of the site is that of docs/index.md: its sections, and what they link, in their order."""

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


def navigation(index: str) -> list[str | dict[str, list[str]]]:
    """The index itself, then its sections; who is linked twice stands where the first link is."""
    seen = {"docs/index.md"}
    entries: list[str | dict[str, list[str]]] = ["docs/index.md"]
    parts = _SECTION.split(index)
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        pages = [path for path in links(body, "docs/index.md") if path not in seen]
        seen.update(pages)
        entries.append({title: pages})
    return entries
