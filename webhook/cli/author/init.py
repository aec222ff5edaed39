"""`cks-admission init`."""

from __future__ import annotations

from pathlib import Path

import click

from policies.kubernetes.name import dns_subdomain
from webhook.cli.exits import InputError

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
      - A Pod names its team. Add the label team to its metadata. (spec.template.metadata.labels)
"""


@click.group("init")
def command() -> None:
    """Write the first files of something of your own."""


@command.command("policy")
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
    help="Where editors find what export schema suite printed; from the policy's folder.",
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
        click.echo(f"wrote {folder / file}")
    click.echo(f"Next: cks-admission test --watch {folder}")
