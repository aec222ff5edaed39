"""Match conditions as text: well formed, short enough, safe against hostile names, and the same every time.

That they decide as the rules do is shown on a real API server.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.builders import FACTS, WORKLOADS, Json, at, merged, pod, request
from support.cel.celrun import compiled, names
from support.mistakes import Row, correct, mistakes

from policies.cel.cost import EXPRESSION_LIMIT
from policies.celtext import at as at_place
from policies.celtext import values
from policies.engine.rule import HookCondition
from policies.engine.safety import Exemptions, Safety
from policies.labels import EXCEPTIONS, LabelException, is_reserved, organization
from policies.matchconditions import (
    RESERVED,
    is_not_essential,
    pod_is_no_mirror,
    pod_lacks_cpu_toleration,
    pod_requests_no_accelerator,
    requester_is_not_exempt,
    reserved_label_changes,
    selectors_are_concerned,
    topology_is_mentioned,
)
from policies.objects.fieldpath import Pattern, locate, parse, render
from policies.objects.workload import HISTORIES, workload
from policies.podspec import Accelerators
from policies.topology.annotation import ANNOTATIONS

_SHIPPED = (*EXCEPTIONS, organization("a1b2c3"))
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
    others = ["alice", "system:apiserver2", "x-system:apiserver", "its", "a", "b", "x", "system:serviceaccount:ci:x"]

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
    keys = {exception.key for exception in _SHIPPED}
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


_ACCELERATORS = Accelerators()
_CONDITION = compiled(pod_requests_no_accelerator(_ACCELERATORS).expression)


def _limits(**resources: str) -> Json:
    return {
        "name": "main",
        "resources": {"limits": {name.replace("_", "/"): value for name, value in resources.items()}},
    }


@pytest.mark.parametrize(
    ("containers", "asked"),
    [
        pytest.param([{"name": "main"}], True, id="no-resources"),
        pytest.param([{"name": "main", "resources": {"requests": {"cpu": "1"}}}], True, id="no-limits"),
        pytest.param([_limits(cpu="8", memory="1Gi")], True, id="cpu"),
        pytest.param([_limits(**{"nvidia.com_gpu": "0"})], True, id="no-gpu"),
        pytest.param([_limits(**{"nvidia.com_gpus": "1"})], True, id="another-resource"),
        pytest.param([_limits(**{"nvidia.com_gpu": "8"})], False, id="gpu"),
        pytest.param([_limits(cpu="1"), _limits(**{"nvidia.com_mig-1g.5gb": "1"})], False, id="glob-in-the-second"),
    ],
)
def test_accelerators(containers: list[Json], *, asked: bool) -> None:
    """A Pod that is not asked about requests an accelerator, as the rule sees it."""
    obj = pod(containers=containers)

    found = _CONDITION.evaluate_exactly(names(obj))

    assert (found.error, found.value) == (None, asked)
    assert asked or _ACCELERATORS.requested(obj, "default", FACTS)


_OBJECT: Json = {
    "a": {"b": 1, "c-d": {"e": 2}},
    "list": [{"b": 3}, {}, {"b": None}, 7, [1]],
    "map": {"x": {"b": [4]}, "y": {"b": [5, 6]}, "z": "b"},
}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path or "object")
        for path in (
            "",
            "a.b",
            "a.c-d.e",
            "a.b.c",
            "none.b",
            "list.b",
            "list[*].b",
            "list[*]",
            "map.*.b[*]",
            "map[*]",
            "a.*",
        )
    ],
)
def test_values_at_a_path(path: str) -> None:
    """The list has what stands at the places of the pattern, in order, and nothing where a step does not fit."""
    pattern: Pattern = parse(path)

    found = compiled(f"{values('object', pattern)} == dyn(params)").evaluate_exactly(
        names(_OBJECT, params=[value for _, value in locate(_OBJECT, pattern)])
    )

    assert (found.error, found.value) == (None, True)


@pytest.mark.parametrize(
    ("path", "holds"), [("a.b", True), ("a.none", False), ("list.b", False), ("a.b.c", False), ("a.c-d.e", False)]
)
def test_a_predicate_at_a_path(path: str, *, holds: bool) -> None:
    """The predicate is asked about the one value at a path; without one the answer is no, and no error."""
    found: Any = compiled(at_place("object", parse(path), "{} == 1".format)).evaluate_exactly(names(_OBJECT))

    assert (found.error, found.value) == (None, holds)


_ROWS = [row for row in WORKLOADS.values() if row.templates and row.group_kind not in HISTORIES and row.kind != "Pod"]
_PODS, _TEMPLATES = (compiled(selectors_are_concerned(rows).expression) for rows in ((), _ROWS))
_MISTAKES = [
    row for row in mistakes() if row.subject == "selectors" and any(line.startswith("spec") for line in row.says)
]
_OWNER = {"ownerReferences": [{"controller": True, "kind": "ReplicaSet", "name": "a"}]}


def _asked(obj: Json, old: Json | None = None) -> bool:
    condition = _PODS if obj["kind"] == "Pod" else _TEMPLATES
    group, _, version = obj["apiVersion"].rpartition("/")
    kinds = {"kind": {"group": group, "version": version, "kind": obj["kind"]}}
    variables: dict[str, Any] = {**names({}, oldObject=old, request=kinds), "object": obj}
    found, exact = condition.evaluate(variables), condition.evaluate_exactly(variables)
    assert (found.error, exact.error, found.value) == (None, None, exact.value)
    assert found.cost < EXPRESSION_LIMIT
    return bool(exact.value)


def test_mistakes_are_asked_about() -> None:
    """The API server asks about every mistake of the table that the rule tells of."""
    assert len(_MISTAKES) > 80
    assert [row.name for row in _MISTAKES if not _asked(row.manifest)] == []


@pytest.mark.parametrize("row", [_MISTAKES[0], next(row for row in _MISTAKES if row.manifest["kind"] == "Job")],
                         ids=lambda row: row.manifest["kind"])  # fmt: skip
def test_what_is_not_asked_about(row: Row) -> None:
    """What a controller owns, and what is as it was, costs no call."""
    obj = row.manifest

    assert not _asked({**obj, "metadata": {**obj["metadata"], **_OWNER}})
    assert not _asked(obj, obj)


def test_ordinary_objects() -> None:
    """Labels of one's own, and those that nearly every selector has, cost no call."""
    ordinary = {"labels of one's own", "a topology key of one's own", "Linux on amd64", "a name of a Node"}
    ordinary |= {"a control plane's toleration and selector", "a GPU's product"}

    assert {row.name for row in correct() if row.name in ordinary and not _asked(row.manifest)} == ordinary
    assert not _asked({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}})
    assert not _asked({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": {"template": {}}})


def test_every_kind_and_template() -> None:
    """A key that looks known is found in each template of each kind, behind items that have none."""
    found = []
    for row in _ROWS:
        for pattern in row.templates:
            selector = (*pattern, *row.shape.place(("spec", "nodeSelector")))
            place = render(selector).replace("[*]", "[1]").replace(".*", ".any")
            obj = at(place, {"backend.coreweave.cloud/superpod": "1"})
            kinds = {"kind": {"group": row.group, "version": "v1", "kind": row.kind}}
            written = merged({"metadata": {"name": "a"}}, obj)
            answer = _TEMPLATES.evaluate_exactly({**names({}, oldObject=None, request=kinds), "object": written})
            found.append((row.kind, place, answer.error, answer.value))

    assert [one for one in found if one[2:] != (None, True)] == []
