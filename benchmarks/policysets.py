"""Directories of admission policies for `cks-admission serve --policies`, with a file for each policy.

`python -m benchmarks.policysets PATH NUMBER` changes a file, or all files in a directory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks.cel.policies import Policy, many, policies

PACKS: Final = Path(__file__).parents[1] / "policies" / "packs"
FEW: Final = ("labels", "memory", "registry")
MATCHING: Final = 100
MANY: Final = 1000
# A policy may not have the name of a built-in rule, and `labels` is one.
PREFIX: Final = "bench-"


def _rule(group: str, *resources: str, operations: Sequence[str] = ("CREATE", "UPDATE")) -> dict[str, Any]:
    return {"apiGroups": [group], "apiVersions": ["*"], "operations": list(operations), "resources": list(resources)}


_PODS: Final = {"resourceRules": [_rule("", "pods")]}


def few(directory: Path) -> Path:
    """Three policies on Pods: reserved labels, memory limits, registries."""
    return _written(directory, [_on_pods(policy) for policy in policies() if policy.name in FEW])


def twenty(directory: Path) -> Path:
    """The twenty policies that compare the engines."""
    return _written(directory, map(_on_pods, policies()))


def matching(directory: Path, count: int) -> Path:
    """Policies on Pods, of three simple expressions each."""
    sets = enumerate(many(count))
    return _written(directory, [_documents(f"{PREFIX}simple-{number:03}", _PODS, texts, {}) for number, texts in sets])


def thousand(directory: Path) -> Path:
    """The twenty, and enough policies on other requests to make MANY."""
    own = [_on_pods(policy) for policy in policies()]
    return _written(directory, [*own, *_elsewhere(MANY - len(own))])


def options(paths: Iterable[Path]) -> list[str]:
    """The command-line options for policies in these directories."""
    return [option for path in paths for option in ("--policies", str(path))]


def change(path: Path, number: int) -> None:
    """Change a file, or all files in a directory: a comment in each, and a constant in the policies on other requests.

    Each file is replaced as a whole, as tools do, so that nobody reads half of it.
    """
    for file in _files(path):
        _change(file, number)


def names(path: Path) -> set[str]:
    """The policies in a file or a directory."""
    return {file.stem for file in _files(path)}


def _files(path: Path) -> list[Path]:
    return sorted(path.iterdir()) if path.is_dir() else [path]


def _change(file: Path, number: int) -> None:
    text = file.read_text(encoding="utf-8").replace("banned-", f"banned-{number}-")
    beside = file.with_name(f".{file.name}")
    beside.write_text(f"# change {number}\n{text}", encoding="utf-8")
    beside.replace(file)


def _on_pods(policy: Policy) -> list[dict[str, Any]]:
    """One of the twenty, negated if it is false for the Pod, so that the Pod passes all."""
    expression = policy.expression if policy.allowed else f"!({policy.expression})"
    return _documents(f"{PREFIX}{policy.name}", _PODS, [expression], policy.variables)


def _elsewhere(count: int) -> Iterator[list[dict[str, Any]]]:
    """Policies of three expressions each on requests other than CREATE of Pods, all different."""
    for number, (texts, constraints) in enumerate(zip(many(count), islice(cycle(_OTHERS), count), strict=True)):
        yield _documents(f"{PREFIX}other-{number:03}", constraints, texts, {})


def _documents(
    name: str, constraints: Mapping[str, Any], expressions: Sequence[str], variables: Mapping[str, str]
) -> list[dict[str, Any]]:
    """A policy, and a binding that denies violations."""
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": dict(constraints),
        "variables": [{"name": key, "expression": text} for key, text in variables.items()],
        "validations": [{"expression": text} for text in expressions],
    }
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"ValidatingAdmissionPolicy{kind}",
            "metadata": {"name": name},
            "spec": content,
        }
        for kind, content in (("", spec), ("Binding", {"policyName": name, "validationActions": ["Deny"]}))
    ]


_OTHERS: Final[Sequence[Mapping[str, Any]]] = (
    {"resourceRules": [_rule("apps", "deployments")]},
    {"resourceRules": [_rule("apps", "daemonsets", "statefulsets")], "matchPolicy": "Exact"},
    {"resourceRules": [_rule("batch", "jobs"), _rule("batch", "cronjobs")]},
    {"resourceRules": [_rule("", "pods", operations=["DELETE"])]},
    {"resourceRules": [_rule("", "pods/exec", "pods/attach", operations=["CONNECT"])]},
    {
        "resourceRules": [_rule("", "services", "configmaps", operations=["*"])],
        "namespaceSelector": {"matchLabels": {"example.org/stage": "production"}},
    },
    {
        "resourceRules": [_rule("networking.k8s.io", "*", operations=["*"])],
        "excludeResourceRules": [_rule("networking.k8s.io", "networkpolicies", operations=["*"])],
    },
    {
        "resourceRules": [
            {**_rule("", "namespaces", operations=["DELETE"]), "resourceNames": ["prod"], "scope": "Cluster"}
        ],
    },
    {
        "resourceRules": [_rule("ray.io", "rayclusters"), _rule("kubeflow.org", "pytorchjobs", "mpijobs")],
        "objectSelector": {"matchExpressions": [{"key": "example.org/team", "operator": "Exists"}]},
    },
    {"resourceRules": [_rule("example.org", "*/*", operations=["*"])]},
)  # fmt: skip


def _written(directory: Path, files: Iterator[list[dict[str, Any]]] | Sequence[list[dict[str, Any]]]) -> Path:
    directory.mkdir()
    for documents in files:
        text = yaml.safe_dump_all(documents, sort_keys=False, width=1000)
        (directory / f"{documents[0]['metadata']['name']}.yaml").write_text(text, encoding="utf-8")
    return directory


if __name__ == "__main__":  # a separate process, so that it does not delay the process that measures meanwhile
    change(Path(sys.argv[1]), int(sys.argv[2]))
