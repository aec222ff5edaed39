"""The package as a whole: its public names, its error tree, its borders."""

import subprocess
import sys
from pathlib import Path

from certs import errors

_ERRORS = {name: value for name, value in vars(errors).items() if isinstance(value, type)}


def test_the_error_tree_is_drawn() -> None:
    """Every error is in the drawing at the top of its module, one level deeper than its parent."""
    assert errors.__doc__ is not None
    assert len(_ERRORS) == 7
    drawn = {
        words[0]: line.index(words[0]) for line in errors.__doc__.splitlines() if (words := line.strip("│├└─ ").split())
    }

    for name, error in _ERRORS.items():
        parent = error.__bases__[0].__name__
        assert name in drawn
        if parent != "Exception":
            assert drawn[name] == drawn[parent] + 4


def test_all_errors_can_be_caught_by_one() -> None:
    """Whoever catches CertificateError has caught them all."""
    assert all(issubclass(error, errors.CertificateError) for error in _ERRORS.values())


def test_importing_the_package_loads_nothing() -> None:
    """`import certs` costs nothing: cryptography comes with the first module that needs it."""
    code = "import sys, certs; sys.exit('cryptography' in sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=False, cwd=Path(__file__).parents[2])

    assert done.returncode == 0
