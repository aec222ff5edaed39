"""`cks-admission eval`: an expression's value, type and cost, why it is false, and files of cases."""

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from support.service.commands import run, start

_POD = """\
    apiVersion: v1
    kind: Pod
    metadata: {name: web, namespace: team-a}
    spec:
      containers:
      - {name: app, image: example.org/web, resources: {limits: {memory: 1Gi}}}
      - {name: sidecar, image: example.org/log, resources: {}}
    """
_LIMITS = "object.spec.containers.all(c, has(c.resources.limits))"


@pytest.fixture
def pod(tmp_path: Path) -> str:
    """A Pod with a container that has limits and one that has none."""
    path = tmp_path / "pod.yaml"
    path.write_text(dedent(_POD))
    return str(path)


def test_the_value_the_type_and_the_cost_are_printed(pod: str) -> None:
    """An expression is evaluated with the object of a file."""
    result = run("eval", "object.spec.containers.map(c, c.name)", "-f", pod)

    assert (result.stdout, result.exit_code) == ('value: ["app", "sidecar"]\ntype: list\ncost: 32\n', 0)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ((), "value: true\ntype: bool\ncost: 1\n"),
        (("--new",), "undeclared reference to 'includes'"),
        (("--kubernetes", "1.36"), "undeclared reference to 'includes'"),
    ],
)
def test_a_release_of_kubernetes_evaluates(options: tuple[str, ...], shown: str) -> None:
    """An expression is one that the newest release has stored, or that of another release, or of a new policy."""
    assert shown in run("eval", "[1].includes(1)", *options).output


def test_why_names_the_part_that_decided(pod: str) -> None:
    """--why shows the path, the smallest part that is false, and which container."""
    result = run("eval", _LIMITS, "-f", pod, "--why")

    assert result.stdout == (
        "value: false\ntype: bool\ncost: 14\nwhy:\n"
        '  spec.containers[1].resources: has(c.resources.limits) is false (container "sidecar")\n'
    )
    assert result.exit_code == 0


def test_a_true_value_needs_no_explanation(pod: str) -> None:
    """--why adds nothing to what is true."""
    assert run("eval", "true", "-f", pod, "--why").stdout == "value: true\ntype: bool\ncost: 0\n"


def test_a_failed_expression_says_what_failed(pod: str) -> None:
    """An expression that fails prints the error and exits with 1."""
    result = run("eval", "object.spec.replicas <= 5", "-f", pod, "--why")

    assert result.stdout == (
        "error: no such key: replicas\ncost: 4\nwhy:\n"
        "  spec.replicas: object.spec.replicas failed: no such key: replicas\n"
    )
    assert result.exit_code == 1


def test_explain_shows_the_python_that_runs() -> None:
    """--explain prints the generated function."""
    result = run("eval", "1 + 2", "--explain", "-o", "json")

    answer = json.loads(result.stdout)
    assert list(answer) == ["value", "type", "cost", "python"]
    assert answer["python"].startswith("def evaluate(names, limit, expired):\n cost = 0\n")


def test_explain_says_where_there_is_no_python() -> None:
    """A construct that only the exact evaluator knows is said to be left to it."""
    result = run("eval", "dyn(1).orValue(2)", "--explain")

    assert "python:\n\n# This expression is left to the exact evaluator.\n" in result.stdout


def test_variables_are_declared_in_order(pod: str) -> None:
    """A variable may use the one before it, and the cost is of all that was evaluated."""
    result = run(
        "eval", "variables.count > 1", "-f", pod,
        "--variable", "names=object.spec.containers.map(c, c.name)",
        "--variable", "count=variables.names.size()",
        "-o", "yaml",
    )  # fmt: skip

    assert yaml.safe_load(result.stdout) == {"value": True, "type": "bool", "cost": 38}


def test_all_inputs_can_be_given(tmp_path: Path, pod: str) -> None:
    """oldObject, params, namespaceObject and request come from files of their own."""
    given = {
        "old": {"spec": {"replicas": 1}},
        "params": {"max": 2},
        "namespace-object": {"metadata": {"name": "team-a", "labels": {"env": "prod"}}},
        "request": {"operation": "UPDATE", "userInfo": {"username": "alice"}},
    }
    arguments = []
    for name, value in given.items():
        (tmp_path / name).write_text(json.dumps(value))
        arguments += [f"--{name}", str(tmp_path / name)]

    expression = (
        "[string(oldObject.spec.replicas), string(params.max), namespaceObject.metadata.labels.env,"
        " request.userInfo.username, request.operation, string(object.metadata.name)]"
    )
    result = run("eval", expression, "-f", pod, *arguments, "-o", "json")

    assert json.loads(result.stdout)["value"] == ["1", "2", "prod", "alice", "UPDATE", "web"]


@pytest.mark.parametrize(
    ("files", "operation"),
    [((), "CREATE"), (("-f",), "CREATE"), (("-f", "--old"), "UPDATE"), (("--old",), "DELETE")],
    ids=["nothing", "object", "both", "old object"],
)
def test_the_operation_follows_from_the_objects(files: tuple[str, ...], operation: str, pod: str) -> None:
    """Without --request the operation is the one that has such objects."""
    arguments = [part for option in files for part in (option, pod)]

    assert json.loads(run("eval", "request.operation", *arguments, "-o", "json").stdout)["value"] == operation


def test_the_object_may_come_from_standard_input() -> None:
    """-f - reads the object that is piped in."""
    assert run("eval", "object.a", "-f", "-", stdin='{"a": 5}').stdout == "value: 5\ntype: int\ncost: 2\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("obj.spec",),
            (
                "Error: the expression does not compile\n"
                "expression:1:1: undeclared reference to 'obj' (in container '')\n"
                "obj.spec\n^\nhint: did you mean 'object'?\n"
            ),
        ),
        (
            ("object.spec", "--result", "bool"),
            (
                "Error: the expression does not compile\n"
                "expression:1:1: must evaluate to bool but got dyn\n"
                "object.spec\n^\n"
                "hint: compare the value, as in `object.spec.hostNetwork == true`: "
                "fields of object have no known type\n"
            ),
        ),
        (
            ("variables.a", "--variable", "a=1 + 'x'"),
            (
                "Error: the variable does not compile\n"
                "variables.a:1:3: found no matching overload for '_+_' applied to '(int, string)'\n"
                "1 + 'x'\n  ^\n"
                "hint: declared: bytes + bytes; double + double; duration + duration; duration + timestamp; "
                "timestamp + duration; int + int; and 3 more\n"
            ),
        ),
        (("1", "--variable", "a"), "Error: --variable a: must be NAME=EXPRESSION\n"),
        ((), "Error: an EXPRESSION or --cases FILE is needed\n"),
        (("1", "-f", "missing.yaml"), "Error: missing.yaml: cannot be read: No such file or directory\n"),
        (
            ("authorizer.path('/x').check('get').allowed()",),
            "Error: the expression asks whether the requester may get path /x; give --authorizer allow or deny\n",
        ),
    ],
    ids=["unknown name", "wrong result", "variable", "no equals sign", "nothing", "no file", "unanswered check"],
)
def test_what_cannot_be_evaluated_is_said(arguments: tuple[str, ...], message: str) -> None:
    """Input that does not compile or cannot be read ends with 2, and with the place and a hint."""
    result = run("eval", *arguments)

    assert (result.stderr, result.stdout, result.exit_code) == (message, "", 2)


def test_two_objects_are_one_too_many(tmp_path: Path) -> None:
    """A file with two documents is refused: nobody could say which one is meant."""
    path = tmp_path / "two.yaml"
    path.write_text("a: 1\n---\nb: 2\n")

    problem = "holds 2 documents; one object is needed; choose one with --document"
    assert run("eval", "1", "-f", str(path)).stderr == f"Error: {path}: {problem}\n"


@pytest.mark.parametrize(
    ("document", "output"),
    [
        ("1", "value: 1\n"),
        ("Pod/b", "value: 2\n"),
        ("Pod/c", "Error: --document Pod/c: two.yaml holds Pod/a, Pod/b\n"),
        ("3", "Error: --document 3: two.yaml holds Pod/a, Pod/b\n"),
        ("0", "Error: --document 0: two.yaml holds Pod/a, Pod/b\n"),
    ],
)
def test_a_document_is_chosen(document: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--document takes a number or a kind and name; another one is refused with those that exist."""
    monkeypatch.chdir(tmp_path)
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {{name: {}}}\nspec: {{priority: {}}}\n"
    Path("two.yaml").write_text(f"{pod.format('a', 1)}---\n{pod.format('b', 2)}", encoding="utf-8")

    assert run("eval", "object.spec.priority", "-f", "two.yaml", "--document", document).output.startswith(output)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [("1==1 -e", 0), ("1==2 -e", 1), ("1==2", 0), ("1 -e", 0), ("request.userInfo.groups[0]=='dev' --group dev -e", 0)],
)
def test_a_false_value_is_exit_code_1_on_demand(arguments: str, code: int) -> None:
    """With -e a shell can branch on the value."""
    assert run("eval", *arguments.split()).exit_code == code


def test_the_user_is_that_of_the_request() -> None:
    """--user and --group are the userInfo; everybody who is somebody is authenticated."""
    result = run("eval", "request.userInfo", "--user", "alice", "--group", "dev", "-o", "json")

    assert json.loads(result.stdout)["value"] == {"username": "alice", "groups": ["dev", "system:authenticated"]}


@pytest.mark.parametrize(("answer", "value"), [("allow", "true"), ("deny", "false")])
def test_authorization_checks_have_the_answer_given(answer: str, value: str) -> None:
    """--authorizer decides every check."""
    result = run("eval", "authorizer.path('/x').check('get').allowed()", "--authorizer", answer)

    assert result.stdout == f"value: {value}\ntype: bool\ncost: 350003\n"


def test_a_mutation_is_shown_as_a_patch() -> None:
    """--result jsonpatch allows JSONPatch{}, and demands a list of them."""
    result = run("eval", "[JSONPatch{op: 'add', path: '/x', value: 1}]", "--result", "jsonpatch", "-o", "json")

    assert json.loads(result.stdout) == {
        "value": [{"op": "add", "path": "/x", "value": 1}],
        "type": "list",
        "cost": 50,
    }


_CASES: dict[str, Any] = {
    "fixtures": {"object": {"a": 1}},
    "cases": [
        {"id": "good", "expression": "object.a", "expect": {"value": 1, "type": "int", "cost": 2}},
        {"id": "value", "expression": "object.a", "expect": {"value": 2, "type": "int", "cost": 2}},
        {"id": "cost", "expression": "1", "expect": {"value": 1, "type": "int", "cost": 7}},
        {"id": "refused", "expression": "obj", "expect": {"value": 1, "type": "int", "cost": 0}},
    ],
}


def test_cases_that_differ_are_printed(tmp_path: Path) -> None:
    """--cases prints what differs, how many agree, and exits with 1."""
    path = tmp_path / "cases.yaml"
    path.write_text(yaml.safe_dump(_CASES))

    result = run("eval", "--cases", str(path))

    assert result.stdout == (
        "value: object.a\n  value: expected 2, found 1\n"
        "cost: 1\n  cost: expected 7, found 0\n"
        "refused: obj\n  stage: expected None, found 'compile'\n"
        "  found the compile error: ERROR: <input>:1:1: undeclared reference to 'obj' (in container '')\n"
        "1 of 4 cases agree\n"
    )
    assert result.exit_code == 1


def test_cases_that_all_agree_are_counted(tmp_path: Path) -> None:
    """--cases exits with 0 when nothing differs; the real command says the same."""
    path = tmp_path / "cases.yaml"
    path.write_text(yaml.safe_dump({**_CASES, "cases": _CASES["cases"][:1]}))

    result = start("eval", "--cases", str(path))

    assert (result.stdout, result.stderr, result.returncode) == (b"1 of 1 cases agree\n", b"", 0)


def test_a_file_that_holds_no_cases_is_refused(tmp_path: Path) -> None:
    """A file of another form is wrong usage, and the message says what is missing."""
    path = tmp_path / "cases.yaml"
    path.write_text("cases: 1\n")

    result = run("eval", "--cases", str(path))

    assert (result.stderr, result.exit_code) == (f"Error: {path}: cases: a list of cases is needed\n", 2)


def test_variables_of_ones_own(tmp_path: Path) -> None:
    """--var adds variables that no policy has; a taken name, a bad one and one that is unknown are named."""
    event, node = tmp_path / "event.yaml", tmp_path / "node.yaml"
    event.write_text("isFatal: true\nerrorCode: ['79']\n")
    node.write_text("metadata: {labels: {pool: train}}\n")
    own = ("--var", f"event={event}", "--var", f"node={node}")

    both = run("eval", 'event.isFatal && node.metadata.labels["pool"] == "train"', *own)
    wrong = [run("eval", "event", "--var", f"{name}={event}") for name in ("object", "an-event", "other")]

    assert (both.stdout, both.exit_code) == ("value: true\ntype: bool\ncost: 7\n", 0)
    assert [(result.stderr.splitlines()[0], result.exit_code) for result in wrong] == [
        (f"Error: --var object={event}: there is a variable object already", 2),
        (f"Error: --var an-event={event}: must be NAME=FILE", 2),
        ("Error: the expression does not compile", 2),
    ]
