"""docs/reference/library.md: its examples, its lists, and that the library needs no more packages than it says."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import msgspec
import pytest

import cks_admission
from cks_admission import DocumentError, ExpressionError, Finding, Issue, ReleaseError, Request, RequestError, Verdict

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "docs/reference/library.md").read_text(encoding="utf-8")
_DOCTEST = """
import doctest, sys
text = sys.stdin.read()
test = doctest.DocTestParser().get_doctest(text, {}, "library.md", None, 0)
print(doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test))
"""


_LIBRARY = ("google-re2", "jsonpatch", "msgspec", "pyyaml")


def _needed(name: str) -> list[str]:
    """The packages that one needs in any case."""
    needs = distribution(name).requires or ()
    return [re.split(r"[^\w.-]", need)[0] for need in needs if ";" not in need]


def _packages(name: str) -> set[str]:
    """A package and all that it needs."""
    return {name}.union(*map(_packages, _needed(name)))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of the library alone, and the project itself."""
    folder = tmp_path_factory.mktemp("site")
    for name in set().union(*map(_packages, _LIBRARY)):
        package = distribution(name)
        for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            (folder / top).symlink_to(str(package.locate_file(top)))
    for name in ("certs", "cks_admission", "policies", "webhook"):
        (folder / name).symlink_to(_ROOT / name)
    return folder


def _run(base: Path, program: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program that finds nothing but these packages and the standard library."""
    start = f"import sys; sys.path.append({str(base)!r})\n{program}"
    return subprocess.run(  # noqa: PLW1510 - the caller looks at the code
        [sys.executable, "-I", "-S", "-c", start], input=text, capture_output=True, text=True, encoding="utf-8"
    )


def test_the_packages_are_those_of_the_page() -> None:
    """Installed are the four packages of the library and two of the command; what is the server's is in its extras."""
    conditional = [need for need in distribution("cks-admission").requires or () if ";" in need]

    assert sorted(_needed("cks-admission")) == sorted((*_LIBRARY, "click", "pydantic"))
    extras = {re.findall(r"extra == '(\w+)'", need)[0] for need in conditional}
    assert (len(conditional) > 8, extras) == (True, {"playground", "server", "tracing"})
    assert "four packages: google-re2, jsonpatch, msgspec and PyYAML" in _PAGE
    assert "pip installs click and pydantic too" in _PAGE


def test_the_examples_run_with_these_packages_alone(base: Path) -> None:
    """Each example of the page gives what stands below it where no other package is installed."""
    examples = "\n".join(re.findall(r"^```pycon\n(.*?)^```$", _PAGE, re.DOTALL | re.MULTILINE))

    result = _run(base, _DOCTEST, examples)

    assert (result.returncode, result.stderr) == (0, "")
    assert re.fullmatch(r"TestResults\(failed=0, attempted=[1-9]\d+\)\n", result.stdout), result.stdout


def test_the_command_names_what_it_lacks(base: Path) -> None:
    """Where a package is missing, the command says which, and what to install."""
    result = _run(base, "from webhook.cli.command import main; main()")

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "cks-admission: the package click is missing: pip install cks-admission\n"


@pytest.mark.parametrize("kind", [Verdict, Finding, Request, Issue])
def test_every_field_is_on_the_page(kind: type[msgspec.Struct]) -> None:
    """What the library offers is explained, name by name."""
    names = (*cks_admission.__all__, *kind.__struct_fields__)

    assert [name for name in names if not re.search(rf"`{name}`|\b{name}\(|import .*\b{name}\b", _PAGE)] == []


@pytest.mark.parametrize("error", [DocumentError, ExpressionError, ReleaseError, RequestError])
def test_every_error_has_its_row(error: type[Exception]) -> None:
    """The table of errors has them all, and all are of one kind."""
    assert (issubclass(error, cks_admission.LibraryError), f"| `{error.__name__}` |" in _PAGE) == (True, True)
