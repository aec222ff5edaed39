"""Match conditions as text: well formed, short enough, safe against hostile names, and the same every time.

That they decide as the rules do is shown on a real API server.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from support.builders import FACTS, WORKLOADS, pod, request

from policies.engine.rule import HookCondition
from policies.engine.safety import Exemptions, Safety
from policies.labels import GRACEFUL, INTERRUPTABLE, LabelException, is_reserved, organization
from policies.matchconditions import (
    RESERVED,
    is_not_essential,
    pod_is_no_mirror,
    pod_lacks_cpu_toleration,
    pod_requests_no_accelerator,
    requester_is_not_exempt,
    reserved_label_changes,
    topology_is_mentioned,
)
from policies.objects.workload import workload
from policies.podspec import Accelerators
from policies.topology.annotation import ANNOTATIONS

_SHIPPED = (INTERRUPTABLE, GRACEFUL, organization("a1b2c3"))
_HOSTILE = ["it's", "a\\", "\\'", '"', "') || true || ('", "a|b", "(", "[x]", "a\nb", "${x}", "größe", "\x00", "//"]
_ROOT = Path(__file__).parents[3]

# A string literal of CEL in single quotes, an escape in it, and the brackets.
_LITERAL = re.compile(r"'(?:[^'\\\n\r]|\\[\\'nrtabfv?`\"]|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4})*'")
_OPENED = {")": "(", "]": "[", "}": "{"}


def _literals(expression: str) -> list[str]:
    """What the string literals of an expression hold."""
    plain = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}

    def unescape(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else plain.get(code, code)

    escape = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)")
    return [escape.sub(unescape, literal[1:-1]) for literal in _LITERAL.findall(expression)]


def _is_well_formed(expression: str) -> bool:
    """Whether every literal ends, every bracket closes the last one opened, and nothing is left over."""
    opened: list[str] = []
    rest = _LITERAL.sub("_", expression)
    for character in rest:
        if character in "([{":
            opened.append(character)
        elif character in ")]}" and (not opened or opened.pop() != _OPENED[character]):
            return False
    return not opened and "'" not in rest and '"' not in rest


def _labels(
    exceptions: Iterable[LabelException] = _SHIPPED, *, cluster_scope: bool = False, more: Iterable[str] = ()
) -> HookCondition:
    rows = [workload(group, kind, ["spec.template"]) for group in more for kind in more]
    return reserved_label_changes([*WORKLOADS.values(), *rows], tuple(exceptions), cluster_scope=cluster_scope)


def _key(name: str) -> str:
    """A name without what has a meaning in a path."""
    return re.sub(r"[.\[\]]", "", name)


def _topology(*, more: Iterable[str] = ()) -> HookCondition:
    rows = [workload(name, name, [f"spec.{_key(name)}.template"]) for name in more]
    return topology_is_mentioned([*WORKLOADS.values(), *rows])


_ALL = [
    requester_is_not_exempt(Exemptions(), ["cks-system"]),
    _labels(),
    _labels(cluster_scope=True),
    _labels(()),
    pod_lacks_cpu_toleration(),
    pod_is_no_mirror(),
    pod_requests_no_accelerator(Accelerators()),
    _topology(),
    is_not_essential(Safety().writes, ()),
]


def test_names() -> None:
    """Conditions have names that the API server accepts, and those of one webhook differ."""
    assert [condition.name for condition in _ALL] == [
        "requester-is-not-exempt",
        "reserved-label-changes",
        "reserved-label-changes",
        "reserved-label-changes",
        "lacks-cpu-toleration",
        "no-mirror-pod",
        "requests-no-accelerator",
        "topology-is-mentioned",
        "not-essential",
    ]


@pytest.mark.parametrize("condition", _ALL, ids=lambda condition: condition.name)
def test_the_shipped_conditions_are_well_formed(condition: HookCondition) -> None:
    """Every shipped condition is whole, and below the 100,000 characters that the API server takes."""
    assert _is_well_formed(condition.expression)
    assert len(condition.expression) < 100_000


@pytest.mark.parametrize("name", _HOSTILE)
def test_hostile_names_stay_in_their_literals(name: str) -> None:
    """A configured key, value, group, kind, user or group of users is text, never a part of the expression."""
    exception = LabelException(name, frozenset({("", "Pod"), (name, name)}), frozenset({name}))
    conditions = [
        _labels([exception], more=[name]),
        _labels([exception], more=[name], cluster_scope=True),
        requester_is_not_exempt(Exemptions((name,), (name,), (f"{name}/*",)), [name]),
        _topology(more=[name]),
        is_not_essential(Safety(resources=((name, name),)).writes, (name,)),
    ]

    assert [_is_well_formed(condition.expression) for condition in conditions] == [True] * 5
    assert {name, f"{name}/{name}"} <= set(_literals(conditions[0].expression))
    assert f"{name}/{name}" in _literals(conditions[3].expression)
    assert f".{_key(name)}." in conditions[3].expression or _key(name) in _literals(conditions[3].expression)


@pytest.mark.parametrize(
    ("exempt", "namespaces", "users", "groups"),
    [
        pytest.param(
            Exemptions(),
            ["cks-system"],
            ["system:apiserver", "system:serviceaccount:kube-system:x", "system:serviceaccount:cks-system:x"],
            ["system:masters"],
            id="shipped",
        ),
        pytest.param(
            Exemptions((*_HOSTILE, "ops-*"), (*_HOSTILE, "sre-?"), ("ci/deployer",)),
            [],
            [*_HOSTILE, "ops-eu", "system:serviceaccount:ci:deployer"],
            [*_HOSTILE, "sre-1"],
            id="configured",
        ),
        pytest.param(Exemptions((), (), ()), [], [], [], id="nobody"),
    ],
)
def test_names_of_requesters(exempt: Exemptions, namespaces: list[str], users: list[str], groups: list[str]) -> None:
    """The expressions for users and groups match those who are exempt, whole and literally, and nobody else."""
    literals = _literals(requester_is_not_exempt(exempt, namespaces).expression)
    user_expression, group_expression = (literal for literal in literals if literal.startswith("^("))
    others = [
        "alice",
        "system:apiserver2",
        "x-system:apiserver",
        "its",
        "a",
        "b",
        "x",
        "system:serviceaccount:ci:x",
    ]

    assert [name for name in [*users, *others] if re.search(user_expression, name)] == users
    assert [name for name in [*groups, *others, "xsre-1"] if re.search(group_expression, name)] == groups


def test_the_condition_and_the_rule_agree_on_names() -> None:
    """A name that the condition lets go, the rule lets go too, or its requests would slip past."""
    exempt = Exemptions(("ops-*", "a[1]", "b.c"), (), ("team-?/*", "*/bot"))
    literals = _literals(requester_is_not_exempt(exempt, []).expression)
    expression = next(literal for literal in literals if literal.startswith("^("))
    accounts = ["team-a:x", "team-ab:x", "x:bot", "x:bots", "kube-system:x"]
    names = ["ops-1", "ops", "a1", "a[1]", "b.c", "bxc", *(f"system:serviceaccount:{account}" for account in accounts)]

    let_go = [name for name in names if re.search(expression, name)]

    assert let_go == [name for name in names if exempt.cover(request(pod(), user=name), FACTS)]


def test_the_kinds_of_each_scope() -> None:
    """The namespaced condition knows every kind of the table, the other one those that may be cluster-scoped."""
    kinds = {f"{group}/{kind}" for group, kind in WORKLOADS}
    native = {kind for kind in kinds if kind.split("/", 1)[0] in ("", "apps", "batch", "resource.k8s.io")}

    assert kinds & set(_literals(_labels().expression)) == kinds
    assert kinds & set(_literals(_labels(cluster_scope=True).expression)) == kinds - native


def test_the_kinds_that_topology_annotations_are_looked_for_in() -> None:
    """The condition knows every kind of the table that has templates within it."""
    kinds = {f"{row.group}/{row.kind}" for row in WORKLOADS.values() if row.templates and row.templates != ((),)}

    assert {literal for literal in _literals(_topology().expression) if "/" in literal and literal != "/"} == {
        *kinds,
        *("kai.scheduler/", "kai-scheduler/"),
    }
    assert {literal for literal in _literals(topology_is_mentioned(()).expression) if "." in literal} == {*ANNOTATIONS}


def test_removals_are_cluster_scoped() -> None:
    """Only the condition for cluster-scoped objects asks about removals, on Nodes and Namespaces."""
    removal = "kind in ['/Namespace', '/Node'] && oldObject != null"

    assert (removal in _labels().expression, removal in _labels(cluster_scope=True).expression) == (False, True)


def test_exceptions_are_written_as_given() -> None:
    """The condition holds the keys of the exceptions given and no others, with the values that they name."""
    keys = {INTERRUPTABLE.key, GRACEFUL.key, "ns.coreweave.cloud/org"}
    shipped, none = (set(_literals(_labels(exceptions).expression)) for exceptions in (_SHIPPED, ()))

    assert (keys & shipped, keys & none, "a1b2c3" in shipped) == (keys, set(), True)


@pytest.mark.parametrize(
    "key",
    [
        "coreweave.cloud/a",
        "x.coreweave.com/a",
        "a.b.coreweave.cloud/",
        "notcoreweave.cloud/a",
        "coreweave.cloud.example.org/a",
        "coreweavexcloud/a",
        "example.org/coreweave.cloud/a",
        "coreweave.cloud",
        "/a",
        "coreweave.cloud\n/a",
        "\ncoreweave.cloud/a",
    ],
)
def test_reserved_keys(key: str) -> None:
    """The expression for reserved keys and the rule's own test agree."""
    (expression,) = _literals(RESERVED)

    assert (re.search(expression, key) is not None) is is_reserved(key)


def test_conditions_of_pods() -> None:
    """Pods that tolerate the taint by Exists, and mirrors, are not asked about; the rest is left to the rule."""
    assert pod_lacks_cpu_toleration().expression == (
        "!(has(object.spec.tolerations) && object.spec.tolerations.exists(t,\n"
        "  (!has(t.key) || t.key in ['', 'is_cpu_compute']) && has(t.operator) && t.operator == 'Exists' && "
        "(!has(t.effect) || t.effect in ['', 'NoSchedule'])))"
    )
    assert pod_is_no_mirror().expression == (
        "!(has(object.metadata.annotations) && 'kubernetes.io/config.mirror' in object.metadata.annotations)"
    )


def test_the_same_text_in_every_process() -> None:
    """The text depends on the input alone, not on the hashes of a process, or replicas would fight over it."""
    program = (
        "from policies.labels import *; from policies.matchconditions import *\n"
        "from policies.objects.workload import *\n"
        "kinds = frozenset({('', 'Pod'), ('', 'Node'), ('', 'Namespace'), ('apps', 'Deployment'), ('batch', 'Job')})\n"
        "exceptions = [LabelException('a.coreweave.com/b', kinds, frozenset('abcdefgh'))]\n"
        "for scope in (False, True):\n"
        "    print(reserved_label_changes(BUILT_IN, exceptions, cluster_scope=scope).expression)\n"
        "print(requester_is_not_exempt(Exemptions(), ['a', 'b']).expression)\n"
        "print(topology_is_mentioned(BUILT_IN).expression)\n"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(_ROOT)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert len(texts) == 1
    assert {"a.coreweave.com/b", "kai.scheduler/"} <= {*_literals(texts.pop())}
