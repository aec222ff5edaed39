"""The commands in blocks of Markdown, and where they are typed. A command begins with `$ `, its output stands below it.

In the output, a line of three dots stands for any lines, and `…` for any text in a line.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

NOT_TYPED = {
    r".*: docker ": "needs Docker and a registry",
    r".*: (?:make |\.venv/bin/python -m benchmarks |cd tests && )": "takes minutes, or runs on",
    r".*: (?:curl |cks-admission (?:serve --(?:config|kubeconfig|policies)|manage|place) )": "a service, which runs on",
    r".* --watch ": "runs on",
    r"library: pip install ": "needs an index of packages",
    r"cli: echo '": "changes the start file of a shell",
    r"pipelines: cks-admission serve$": "an installation without the extra `server`",
    r"cli: cks-admission doctor ": "an installation with a fault of every kind",
    r".*: helm install .* --set image\.repository=REGISTRY": "as in first-day, with other values",
    r"audit: cks-admission audit --kubeconfig ": "all objects of a cluster; tests/cluster/test_audit.py",
    r"audit: kubectl get reports": "kinds of another project; tests/cluster/test_audit.py reads them",
    r".*: cks-admission topology (?:queue|release) ": "gangs that wait; tests/webhook/cli/topology/test_queue.py",
    r"installation: helm upgrade .*=rendered": "two roll-outs more; tests/cluster/test_release_modes.py proves it",
    r"gang-schedulers: kubectl apply": "needs feature gates",
    r".*: kubectl get nodes\S* .*-o \w+ [>|] ": "the Nodes of a cluster; the file is beside the page",
    r"trying: kubectl logs ": "the file is beside the page",
}
"""Commands of pages that no test types, with the reasons."""

ON_A_RELEASE = ("first-day", "operations", "replicas", "certificates", "installation")
"""Guides for a cluster with the chart, in the order in which tests/cluster/test_release_pages.py types them."""

ON_A_SERVICE = (
    "README",
    "reserved-labels",
    "selectors",
    "tolerations",
    "topology",
    "policies",
    "cli",
    "packs",
    "registration",
)
"""Pages with commands for a cluster that tests/cluster/test_pages.py types."""

_BLOCK = re.compile(r"^( *)```console\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_AHEAD = ("2026-12-31", "2999-12-31")
_NOT_TYPED = re.compile("|".join(NOT_TYPED))
_CLUSTER = re.compile(r"(?:^|\| |; )(?:kubectl (?!cks )|helm |cks-admission (?:doctor|unregister) )")

Block = list[tuple[str, str]]
"""Commands, each with what stands below it."""


class Page(NamedTuple):
    """A page of the documentation."""

    path: Path

    @property
    def name(self) -> str:
        """The name of its file."""
        return self.path.stem

    @property
    def examples(self) -> Path:
        """The folder of the files that it names."""
        return ROOT / "docs" / "examples" / self.name

    def lay(self, folder: Path) -> None:
        """Write its files into a folder, beside examples/ and policies/packs as in a checkout."""
        if self.examples.is_dir():
            shutil.copytree(self.examples, folder, dirs_exist_ok=True)
        (folder / "policies").mkdir(parents=True, exist_ok=True)
        for name in ("examples", "policies/packs", "helm"):
            if not (folder / name).exists():
                (folder / name).symlink_to(ROOT / name)
        for file in folder.glob("*.yaml"):
            file.write_text(ahead(file.read_text(encoding="utf-8")), encoding="utf-8")

    def blocks(self) -> list[Block]:
        """All blocks of commands."""
        return blocks(self.path.read_text(encoding="utf-8"))

    def offline(self) -> list[Block]:
        """Those that need no cluster, without commands that nobody types."""
        return [block for block in self._typed() if not _needs_cluster(block)]

    def clustered(self) -> list[Block]:
        """Those that need a cluster, without commands that nobody types."""
        return [block for block in self._typed() if _needs_cluster(block)]

    def _typed(self) -> list[Block]:
        left = [
            [(line, output) for line, output in block if not _NOT_TYPED.match(f"{self.name}: {line}")]
            for block in self.blocks()
        ]
        return [block for block in left if block]


def pages() -> list[Page]:
    """Return the pages that have commands."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in map(Page, paths) if page.blocks()]


def ahead(text: str) -> str:
    """Return a text whose exceptions hold whenever this is run."""
    return text.replace(*_AHEAD)


def blocks(text: str) -> list[Block]:
    """Return the blocks of commands of a page."""
    found = []
    for _, block in _BLOCK.findall(ahead(text)):
        commands = re.split(r"^\$ ", textwrap.dedent(block), flags=re.MULTILINE)[1:]
        found.append([(line, output) for line, _, output in (part.partition("\n") for part in commands)])
    return found


def is_as_shown(printed: str, shown: str) -> bool:
    """Tell whether a command printed what a page shows of it; a page ends every line."""
    printed += "\n" * (printed != "" and not printed.endswith("\n"))
    lines = re.split(r"^ *\.\.\.\n", shown, flags=re.MULTILINE)
    pattern = r"(?:.*\n)*".join(".*".join(map(re.escape, part.split("…"))) for part in lines)
    return re.fullmatch(pattern, printed) is not None


def _needs_cluster(block: Block) -> bool:
    return any(_CLUSTER.search(line) for line, _ in block)
