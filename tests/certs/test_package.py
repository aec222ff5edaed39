"""The package as a whole: its public names, its error tree, its borders."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import certs
from certs import errors

_MODULES = sorted(
    module.name.removeprefix("certs.") for module in pkgutil.walk_packages(certs.__path__, "certs.") if not module.ispkg
)


def _load(name: str) -> ModuleType:
    return importlib.import_module(f"certs.{name}")


def test_the_error_tree_is_drawn() -> None:
    """Every error is in the drawing at the top of its module, one level deeper than its parent."""
    assert errors.__doc__ is not None
    drawn = {
        words[0]: line.index(words[0]) for line in errors.__doc__.splitlines() if (words := line.strip("│├└─ ").split())
    }

    for name in errors.__all__:
        error = getattr(errors, name)
        parent = error.__bases__[0].__name__
        assert name in drawn
        if parent != "Exception":
            assert drawn[name] == drawn[parent] + 4


def test_all_errors_can_be_caught_by_one() -> None:
    """Whoever catches CertificateError has caught them all."""
    assert all(issubclass(getattr(errors, name), errors.CertificateError) for name in errors.__all__)


@pytest.mark.parametrize("name", _MODULES)
def test_nothing_but_cryptography_is_imported(name: str) -> None:
    """The package is a leaf: standard library, cryptography and itself."""
    source = Path(str(_load(name).__file__)).read_text(encoding="utf-8")
    imported = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            imported.add(node.module.split(".")[0])
        elif isinstance(node, ast.Import):
            imported.update(alias.name.split(".")[0] for alias in node.names)

    assert imported <= {*sys.stdlib_module_names, "cryptography", "certs"}


def test_importing_the_package_loads_nothing() -> None:
    """`import certs` costs nothing: cryptography comes with the first module that needs it."""
    code = "import sys, certs; sys.exit('cryptography' in sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=False, cwd=Path(__file__).parents[2])

    assert done.returncode == 0
