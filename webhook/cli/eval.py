"""`cks-admission eval`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import click

from policies.admissionpolicy.builtin.defaults import kind_of, received
from policies.admissionpolicy.builtin.plugins import admitted
from policies.admissionpolicy.schema import known
from policies.cel.activation import activation
from policies.cel.cases import PATCHING, RESULTS, CaseError, cases, difference, encode, run
from policies.cel.cost import EXPRESSION_LIMIT
from policies.cel.environment import Dialect
from policies.cel.explain import explain
from policies.cel.kubernetes import admission
from policies.cel.library.authorizer import Check, CheckAnswer
from policies.cel.program import Composition, Program, compile_expression
from policies.cel.syntax.source import CompileError, Source
from policies.cel.types import DYN
from policies.cel.values import type_of
from policies.celtext import is_identifier
from policies.engine.interruption import Missing
from policies.engine.request import mapping
from policies.kubernetes.release import Release
from webhook.cli import options
from webhook.cli.output import OK, REFUSED, InputError, bounded, say, show, to_json, unreadable
from webhook.files import yamlfile
from webhook.files.yamlfile import FileError


class _Same:
    """An authorizer that gives every check the same answer, or none."""

    def __init__(self, answer: str | None) -> None:
        self._answer = answer

    def answer(self, check: Check) -> CheckAnswer:
        """The answer to a check. Raises Missing."""
        if self._answer is None:
            raise Missing(check)
        return CheckAnswer(allowed=self._answer == "allow", reason="given by --authorizer")


@click.command("eval")
@click.argument("expression", required=False)
@click.option("-f", "--filename", "file", metavar="FILE|-", help="The object.")
@click.option(
    "--document", metavar="N|KIND/NAME", help="Which document of -f, if it has several: its number from 1, or its name."
)
@click.option("--old", metavar="FILE", help="The object as it is now: oldObject.")
@click.option("--params", metavar="FILE", help="The parameter object: params.")
@click.option("--namespace-object", metavar="FILE", help="The object's Namespace: namespaceObject.")
@click.option("--request", metavar="FILE", help="The AdmissionRequest, without its objects: request.")
@click.option(
    "--var",
    "given",
    multiple=True,
    metavar="NAME=FILE",
    help="Another variable: the object of a file, of type dyn; repeatable.",
)
@click.option(
    "--variable", "variables", multiple=True, metavar="NAME=EXPRESSION", help="A variable; repeatable, in their order."
)
@click.option("--result", type=click.Choice(list(RESULTS)), default="any", show_default=True, help="The required type.")
@click.option("--user", metavar="NAME", help="Who makes the request: request.userInfo.username.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="Group of that user; repeatable.")
@click.option("-e", "--exit-status", "status", is_flag=True, help="Exit with 1 if the value is false.")
@click.option("--authorizer", type=click.Choice(["allow", "deny"]), help="The answer to every authorization check.")
@click.option("--explain", "generated", is_flag=True, help="Show the Python code of the expression.")
@click.option("--why", is_flag=True, help="Say what made the value false, or what failed.")
@click.option("--cases", "case_file", metavar="FILE", help="Run a file of cases instead of one expression.")
@options.kubernetes
@click.option("--new", is_flag=True, help="Only what the release before knows, as for a new policy.")
@options.output
def command(
    expression: str | None, file: str | None, old: str | None, params: str | None, namespace_object: str | None,
    request: str | None, given: tuple[str, ...], variables: tuple[str, ...], result: str, authorizer: str | None,
    case_file: str | None, policies__kubernetes: str | None, output: str, document: str | None, user: str | None,
    groups: tuple[str, ...], *, generated: bool, why: bool, new: bool, status: bool,
) -> None:  # fmt: skip
    """Evaluate a CEL expression as kube-apiserver would: value, type and cost.

    Exit codes: 0 for a value (1 for false with -e), 1 if the expression fails or a case differs, 2 if it does not
    compile.

    \b
    Examples:
      cks-admission eval 'object.spec.replicas <= 5' -f deployment.yaml
      cks-admission eval 'object.spec.containers.all(c, has(c.resources.limits))' -f pod.yaml --why
      cks-admission eval 'variables.names' --variable names='object.spec.containers.map(c, c.name)' -f pod.yaml
      cks-admission eval 'object.spec.containers.includes(1)' -f pod.yaml --kubernetes 1.36
      cks-admission eval 'event.isFatal && node.metadata.labels.pool == "a"' --var event=event.yaml --var node=node.yaml
      cks-admission eval -e 'request.userInfo.username == "alice"' --user alice && echo yes
      kubectl kustomize overlays/production | cks-admission eval 'object.spec' -f - --document Deployment/web
      cks-admission eval --cases cases.yaml
    """
    dialect = Dialect(options.release(policies__kubernetes), stored=not new)
    if case_file is not None:
        sys.exit(_run_cases(case_file, dialect))
    if expression is None:
        raise InputError("an EXPRESSION or --cases FILE is needed")
    own = _own(given, dialect)
    with bounded("the expression"):
        composition, program = _compile(expression, variables, result, own, dialect)
    object_, before, parameters, around, written = (
        _object(path, dialect.release, which)
        for path, which in ((file, document), (old, None), (params, None), (namespace_object, None), (request, None))
    )

    # Without --request the operation is what the objects tell.
    asked = written
    if asked is None:
        operation = "UPDATE" if object_ and before else "DELETE" if before else "CREATE"
        metadata = mapping(object_ or before, "metadata")
        asked = {"operation": operation, "name": metadata.get("name"), "namespace": metadata.get("namespace")}
    if user or groups:
        asked = {**asked, "userInfo": {"username": user or "", "groups": [*groups, "system:authenticated"]}}
    known = activation(asked, _Same(authorizer), object=object_, old_object=before, params=parameters, namespace=around)
    names = composition.bind(known | own)
    try:
        with bounded("the expression", "evaluate"):
            evaluation = program.evaluate(names)
    except Missing as missing:
        check = missing.key
        about = f"path {check.path}" if check.path is not None else f"{check.resource} in namespace {check.namespace!r}"
        asks = f"the expression asks whether {check.user.name or 'the requester'} may {check.verb} {about}"
        raise InputError(f"{asks}; give --authorizer allow or deny") from None

    cost = evaluation.cost + names["variables"].cost
    if evaluation.error is not None:
        answer: dict[str, Any] = {"error": str(evaluation.error), "cost": cost}
    else:
        answer = {"value": encode(evaluation.value), "type": type_of(evaluation.value).name, "cost": cost}
    if why and (evaluation.error is not None or evaluation.value is False):
        with bounded("the expression", "explain"):
            reasons = list(map(str, explain(program.source, composition, names, limit=EXPRESSION_LIMIT)))
        answer |= {"why": reasons} if reasons else {}
    if generated:
        left = "# This expression is left to the exact evaluator."
        answer["python"] = left if program.generated is None else program.generated.source
    lines = [f"value: {to_json(answer['value'], None)}"] if "value" in answer else [f"error: {answer['error']}"]
    lines += (f"{key}: {answer[key]}" for key in ("type", "cost") if key in answer)
    lines += ["why:", *(f"  {reason}" for reason in answer["why"])] if "why" in answer else []
    lines += ["python:", "", *answer["python"].split("\n")] if generated else []
    show(output, lines, answer)
    refused = evaluation.error is not None or (status and evaluation.value is False)
    sys.exit(REFUSED if refused else OK)


def _own(given: Iterable[str], dialect: Dialect) -> dict[str, Any]:
    """The variables that no policy has, such as those of another tool's rules. Raises InputError."""
    values: dict[str, Any] = {}
    for option in given:
        name, equals, path = option.partition("=")
        if not equals or not is_identifier(name):
            raise InputError(f"--var {option}: must be NAME=FILE")
        if admission(dialect=dialect).lookup(name) is not None or name in values:
            raise InputError(f"--var {option}: there is a variable {name} already")
        values[name] = _object(path, dialect.release)
    return values


def _compile(
    expression: str, variables: Iterable[str], result: str, own: Iterable[str], dialect: Dialect
) -> tuple[Composition, Program]:
    environment = admission(dialect=dialect)
    environment = replace(environment, variables={**environment.variables, **dict.fromkeys(own, DYN)})
    composition = Composition(environment)
    for given in variables:
        name, equals, text = given.partition("=")
        if not equals or not name.isidentifier():
            raise InputError(f"--variable {given}: must be NAME=EXPRESSION")
        composition = composition.declare(name, text, source=Source(text, f"variables.{name}"))
        program = composition.programs[name]
        if isinstance(program, CompileError):
            raise InputError(f"the variable does not compile\n{program}") from None
    if result in PATCHING:
        composition = composition.for_mutations()
    try:
        source = Source(expression, "expression")
        return composition, compile_expression(expression, composition.environment, *RESULTS[result], source=source)
    except CompileError as error:
        raise InputError(f"the expression does not compile\n{error}") from None


def _object(path: str | None, release: Release, document: str | None = None) -> Any:
    """The one object in a file. document: its number from 1, or its kind and name. Raises InputError."""
    if path is None:
        return None
    objects = [value for value in _documents(path) if value is not None]
    if document is not None and document.isdecimal() and 0 < int(document) <= len(objects):
        objects = [objects[int(document) - 1]]
    elif document is not None:
        names = [
            f"{obj.get('kind') if isinstance(obj, dict) else None}/{mapping(obj, 'metadata').get('name')}"
            for obj in objects
        ]
        if names.count(document) != 1:
            raise InputError(f"--document {document}: {path} holds {', '.join(names) or 'no objects'}")
        objects = [objects[names.index(document)]]
    if len(objects) != 1 or not isinstance(objects[0], dict):
        hint = "; choose one with --document" if document is None and len(objects) > 1 else ""
        raise InputError(f"{path}: holds {len(objects)} documents; one object is needed{hint}")
    return admitted(received(objects[0], known(kind_of(objects[0]), release)))


def _documents(path: str) -> list[Any]:
    try:
        content = sys.stdin.buffer.read() if path == "-" else yamlfile.content(path, most=yamlfile.OBJECTS, pipes=True)
        return [document.value for document in yamlfile.load(path, content)]
    except OSError as error:
        raise unreadable(error, path) from None
    except FileError as error:
        raise InputError(str(error)) from None


def _run_cases(path: str, dialect: Dialect) -> int:
    """Run a file of cases, print those that differ, and say how many agree."""
    try:
        given = [case for value in _documents(path) for case in cases(value)]
    except CaseError as error:
        raise InputError(f"{path}: {error}") from None
    agreed = 0
    for case in given:
        with bounded(f"{path}: {case.id}", "evaluate"):
            outcome = run(case, dialect)
        wrong = difference(case, outcome, dialect.release)
        agreed += wrong is None
        if wrong is not None:
            say(f"{case.id}: {case.expression}", f"  {wrong}")
            if outcome.error is not None and not wrong.startswith("error"):
                say(f"  found the {outcome.stage} error: {outcome.error}")
    say(f"{agreed} of {len(given)} cases agree")
    return OK if agreed == len(given) else REFUSED
