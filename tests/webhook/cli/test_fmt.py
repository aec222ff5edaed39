"""`cks-admission fmt`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.service.commands import run

if TYPE_CHECKING:
    from pathlib import Path

_POLICY = """\
# kept
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: few}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
  validations:
    - expression: "object.spec.replicas<=5"
"""
_AFTER = _POLICY.replace("<=", " <= ")


def test_one_expression() -> None:
    """An expression of the command line or of standard input is printed in its format."""
    assert run("fmt", "-e", "a&&(b==c)").output == "a && b == c\n"
    assert run("fmt", stdin="a&&\n  (b==c)\n").output == "a && b == c\n"
    assert run("fmt", "-", stdin="a ? b:c").output == "a ? b : c\n"


def test_one_expression_with_a_comment() -> None:
    """It is printed as it is, and the reason is said on stderr."""
    result = run("fmt", "-e", "a // b")

    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        "a // b\n",
        "the expression is left as it is: it has comments\n",
    )


def test_files_are_rewritten_in_place(tmp_path: Path) -> None:
    """The names of changed files are printed; a second run changes nothing."""
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text(_POLICY)
    two.write_text(_AFTER)

    first, second = run("fmt", str(tmp_path)), run("fmt", str(tmp_path))

    assert (first.exit_code, first.output, one.read_text(), two.read_text()) == (0, f"{one}\n", _AFTER, _AFTER)
    assert (second.exit_code, second.output) == (0, "")


def test_check_and_diff_write_nothing(tmp_path: Path) -> None:
    """--check exits with 1 where something would change, --diff shows it."""
    file = tmp_path / "one.yaml"
    file.write_text(_POLICY)

    check, diff = run("fmt", "--check", str(file)), run("fmt", "--diff", str(file))

    assert (check.exit_code, check.output) == (1, f"{file}\n")
    assert diff.exit_code == 0
    assert [line for line in diff.output.splitlines() if line[0] in "+-"] == [
        f"--- {file}",
        f"+++ {file}",
        '-    - expression: "object.spec.replicas<=5"',
        '+    - expression: "object.spec.replicas <= 5"',
    ]
    assert run("fmt", "--check", "--diff", str(file)).exit_code == 1
    assert file.read_text() == _POLICY


def test_mistakes(tmp_path: Path) -> None:
    """What does not parse is shown with its place, and then no file is written."""
    wrong, other = tmp_path / "wrong.yaml", tmp_path / "z.yaml"
    wrong.write_text(_POLICY.replace("<=5", "<="))
    other.write_text(_POLICY)

    result = run("fmt", str(tmp_path))

    assert (result.exit_code, other.read_text()) == (2, _POLICY)
    assert result.stderr.startswith(f"Error: {wrong}:9:42: Syntax error: unexpected end of the expression")
    assert run("fmt", "-e", "a &&").exit_code == 2
    assert run("fmt", "-e", "a", str(other)).exit_code == 2
    assert run("fmt", str(tmp_path / "missing")).exit_code == 2
