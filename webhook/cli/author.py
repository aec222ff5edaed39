"""`cks-admission init|fmt`: a policy is begun, and its expressions are formatted."""

from __future__ import annotations

import sys
from difflib import unified_diff
from pathlib import Path

import click

from policies.cel.syntax.formatting import KeptError, formatted
from policies.cel.syntax.source import CompileError, Source
from policies.kubernetes.name import dns_subdomain
from webhook.cli.output import OK, REFUSED, InputError, bounded, reading, say, write_text
from webhook.files.yamlfile import FileError

_POLICY = """\
# What it requires, in one sentence: a Pod names its team.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: {name}}}
spec:
  failurePolicy: Ignore # an outage of the service stops nothing; Fail refuses
  matchConstraints:
    resourceRules: # rules on Pods are brought to the templates of all workloads
      - {{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}}
  validations:
    - expression: "'team' in object.metadata.?labels.orValue({{}})"
      message: "A Pod names its team. Add the label team to its metadata."
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: {name}}}
spec:
  policyName: {name}
  validationActions: [Warn] # then [Deny], once nobody is warned any more
"""
_SUITE = """\
name: {name}
policies: [policy.yaml]
derived: true # as the service judges: templates of workloads too
objects:
  pod:
    apiVersion: v1
    kind: Pod
    metadata: {{name: web, labels: {{team: a}}}}
    spec: {{containers: [{{name: main, image: "registry.example.com/web:1"}}]}}
  deployment:
    apiVersion: apps/v1
    kind: Deployment
    metadata: {{name: web}}
    spec:
      selector: {{matchLabels: {{app: web}}}}
      template:
        metadata: {{labels: {{app: web}}}}
        spec: {{containers: [{{name: main, image: "registry.example.com/web:1"}}]}}
cases:
  - name: a Pod that names its team
    object: pod
    expect: allowed
  - name: a Deployment whose Pods do not
    object: deployment
    expect: allowed # while the binding warns; denied, with messages, once it denies
    warnings:
      - "spec.template.metadata.labels: A Pod names its team. Add the label team to its metadata."
"""


@click.group("init")
def init() -> None:
    """Write the first files of a policy."""


@init.command("policy")
@click.argument("name")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Folder in which the policy's own folder is made.  [default: this one]",
)
@click.option(
    "--schema",
    metavar="PATH|URL",
    help="Where editors find the JSON Schema of suites, seen from the policy's folder.",
)
def policy(name: str, directory: Path, schema: str | None) -> None:
    """Write a policy, its binding and its suite into a new folder of its name.

    They work as they are: change the rule, its message and the cases, and run the suite while you do. With --schema the
    suite begins with the line by which editors complete and check it.

    \b
    Examples:
      cks-admission init policy team-label
      cks-admission init policy team-label --schema ../suite.schema.json
      cks-admission test --watch team-label
    """
    if problems := dns_subdomain(name):
        raise InputError(f"{name!r} is no name for a policy: {problems[0]}")
    folder = directory / name
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise InputError(f"{folder} exists: choose another name, or remove it") from None
    head = f"# yaml-language-server: $schema={schema}\n" if schema else ""
    for file, text in (("policy.yaml", _POLICY.format(name=name)), ("suite.yaml", head + _SUITE.format(name=name))):
        (folder / file).write_text(text, encoding="utf-8")
        say(f"wrote {folder / file}")
    say(f"Next: cks-admission test --watch {folder}")


@click.command("fmt")
@click.argument("paths", nargs=-1, metavar="[FILE|DIR|-]...")
@click.option("-e", "--expression", metavar="EXPRESSION", help="Format this expression and print it.")
@click.option("--check", is_flag=True, help="Write nothing; name the files that would change, and exit with 1.")
@click.option("--diff", is_flag=True, help="Write nothing; print what would change.")
def fmt(paths: tuple[str, ...], expression: str | None, *, check: bool, diff: bool) -> None:
    """Format the CEL expressions of policies, in their files.

    Lines have at most 120 columns and are broken at operators, arguments and items. Only the expressions of
    ValidatingAdmissionPolicies and MutatingAdmissionPolicies change; comments and everything else in the YAML stay.
    An expression with comments is left as it is. With -e or -, one expression is formatted and printed.

    \b
    Examples:
      cks-admission fmt policies/
      cks-admission fmt --check --diff policies/
      cks-admission fmt -e 'object.spec.replicas<=5'
    """
    if expression is not None or paths in ((), ("-",)):
        if expression is not None and paths:
            raise InputError("give either -e EXPRESSION or files")
        text = sys.stdin.read() if expression is None else expression
        try:
            with bounded("the expression"):
                write_text(formatted(Source(text.strip(), "expression")) + "\n")
        except CompileError as error:
            raise InputError(f"the expression does not parse\n{error}") from None
        except KeptError as reason:
            say(f"the expression is left as it is: {reason}", err=True)
            write_text(text.strip("\n") + "\n")
        return
    from webhook.files.yamltext import format_file  # noqa: PLC0415 - reading policies needs the CEL engine
    from webhook.sources import policyfiles  # noqa: PLC0415 - as above

    results = []
    with reading(FileError):
        for name, text in policyfiles.texts(paths):
            with bounded(name):
                results.append((name, text, format_file(name, text)))
    say(*(line for *_, result in results for line in result.kept), err=True)
    if errors := [error for *_, result in results for error in result.errors]:  # nothing is written
        raise InputError("\n".join(errors))
    changed = 0
    for name, text, result in results:
        if result.text == text:
            continue
        changed += 1
        if diff:
            lines = text.splitlines(keepends=True), result.text.splitlines(keepends=True)
            say(*(line.rstrip("\n") for line in unified_diff(*lines, name, name)))
        elif check:
            say(name)
        else:
            with reading():
                Path(name).write_bytes(result.text.encode())
            say(name)
    sys.exit(REFUSED if check and changed else OK)
