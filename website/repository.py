"""What MkDocs is told: the site's files are named by their paths in the repository.

So the links of a page lead on the site where they lead in a checkout, and MkDocs itself finds those that lead nowhere.
What a page links outside of docs/ is on the site too: Markdown as a page, a source file as a page that shows it, a
folder as a page that lists it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel

from website.navigation import links, navigation

_ROOT = Path(__file__).parents[1]
_ELSEWHERE = "repository"
_UNSOUGHT = "---\nsearch: {exclude: true}\n---\n"
_CELL = re.compile(r"<td.*?</td>", re.DOTALL)
_MERMAID = _ROOT / ".venv-docs" / "package" / "dist" / "mermaid.min.js"


class Shown(File):  # type: ignore[misc] # without MkDocs beside the checkers its classes are Any
    """A page about a source file or a folder."""

    def is_documentation_page(self) -> bool:
        """Whether it becomes a page: it does, whatever its name ends in."""
        return True


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the navigation from docs/pages.md."""
    config.nav = navigation((_ROOT / "docs" / "pages.md").read_text(encoding="utf-8"))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The files of docs/ by their paths in the repository, what they link outside of it, and the theme's."""
    docs = [file for file in files if file.src_dir == config.docs_dir]
    named = [_file(config, f"docs/{file.src_uri}", file.dest_uri) for file in docs]
    script = File("assets/mermaid.min.js", None, config.site_dir, config.use_directory_urls)
    script.abs_src_path = str(_MERMAID)
    return Files([*(file for file in files if file not in docs), *named, *_linked(config, named), script])


def on_page_content(html: str, **_: object) -> str:
    """A page as HTML. In a table of Markdown a bar in code is escaped, which MkDocs' parser shows."""
    return _CELL.sub(lambda cell: cell[0].replace("\\|", "|"), html)


def _linked(config: MkDocsConfig, files: list[File]) -> Iterator[File]:
    """What the pages link that is none of these files, and what that links in turn."""
    known = {file.src_uri for file in files}
    pending = [file for file in files if file.is_documentation_page()]
    while pending:
        page = pending.pop(0)
        for path in links(page.content_string, page.src_uri):
            if path not in known and (_ROOT / path).exists():
                known.add(path)
                file = _outside(config, path)
                pending.append(file)
                yield file


def _outside(config: MkDocsConfig, path: str) -> File:
    place = path.removeprefix("docs/") if path.startswith("docs/") else f"{_ELSEWHERE}/{path}"
    if path.endswith(".md"):
        file = _file(config, path, f"{place.removesuffix('.md').removesuffix('/README')}/index.html")
    else:
        file = Shown(path, None, config.site_dir, config.use_directory_urls, dest_uri=f"{place}/index.html")
        file.content_string = _text(_ROOT / path)
    file.inclusion = InclusionLevel.NOT_IN_NAV
    return file


def _file(config: MkDocsConfig, path: str, place: str) -> File:
    return File(path, str(_ROOT), config.site_dir, config.use_directory_urls, dest_uri=place)


def _text(path: Path) -> str:
    """A page that shows a file, or lists a folder."""
    title = f"{_UNSOUGHT}# {path.relative_to(_ROOT).as_posix()}\n\n"
    if path.is_dir():
        names = sorted(entry.name + "/" * entry.is_dir() for entry in path.iterdir() if entry.name[0] not in "._")
        return title + "".join(f"- [{name}]({path.name}/{name})\n" for name in names)
    language = {".py": "python", ".tpl": "go-html-template", ".svg": "xml"}.get(path.suffix, path.suffix[1:] or "text")
    return f"{title}~~~~~~{language}\n{path.read_text(encoding='utf-8')}~~~~~~\n"
