"""`python roundtrip.py FOLDER …` judges the cases of others' suites by what `convert` makes of their policies.

FOLDER holds a collection with suites of its own: `kyverno-test.yaml` and `chainsaw-test.yaml` of Kyverno, `suite.yaml`
of Gatekeeper. Nothing of a collection is kept.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from msgspec.structs import replace

from policies.admissionpolicy.builtin.defaults import kind_of, received
from policies.admissionpolicy.builtin.plugins import admitted
from policies.admissionpolicy.evaluation.compilation import compile_policy
from policies.admissionpolicy.rules.policyrule import PolicyRule, SubjectCache, in_force
from policies.conversion import convert, is_foreign
from policies.engine.request import AdmissionRequest, UserInfo, mapping, mappings
from policies.kubernetes.release import RELEASES
from policies.objects.workload import BUILT_IN, table
from policies.suite import merge_patch
from webhook.cli.output import to_yaml
from webhook.files import manifest
from webhook.files.yamlfile import FileError
from webhook.sources import policyfiles

Json = dict[str, Any]
_EXPECTED = {"pass": False, "skip": False, "fail": True, "warn": True}
_ALICE = UserInfo("alice")
_RELEASE = RELEASES[0]  # for which the suites were written
_READ = ("Namespace", "ConfigMap", "CustomResourceDefinition")
_PAIR = 2  # a policy and its binding
_AUTOGEN = re.compile("^autogen-(cronjob-)?")


class _LostError(Exception):
    """The policies of a suite cannot be turned, or the suite needs what only its product has; the text says why."""


class _Question(NamedTuple):
    """An object, and whether it violates a policy. rule: the only one of the policy that counts; all if empty."""

    name: str
    object: Json
    violates: bool
    rule: str = ""
    operation: str = "CREATE"
    old: Json | None = None
    user: UserInfo = _ALICE


def _documents(file: Path) -> list[Json]:
    try:
        read = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError) as error:
        raise _LostError(f"{type(error).__name__} in its files") from None
    listed = [item for one in read if isinstance(one, dict) for item in (one.get("items") or [one])]
    return [one for one in listed if isinstance(one, dict)]


def _all(folder: Path, names: Iterable[Any]) -> list[Json]:
    return [one for name in names for one in _documents(folder / str(name))]


class _Rules:
    """What documents become, beside the objects that it reads. Raises _LostError."""

    def __init__(self, documents: list[Json], context: list[Json], rule: str) -> None:
        made: list[Json] = []
        for conversion in convert(documents):
            for remark in conversion.remarks:
                if remark.lost:
                    raise _LostError(remark.text)
            made += conversion.objects
        named = [one for one in made if one["metadata"]["name"].endswith(f"-{rule}")]
        chosen = named if rule and named and len(made) > _PAIR else made
        if not chosen:
            raise _LostError("no policy is among them")
        objects = [*chosen, *({**one, "metadata": _placed(one)} for one in context)]
        try:
            read = policyfiles.read([("made", "---\n".join(map(to_yaml, objects)))], drafts=True, release=_RELEASE)
        except FileError as error:
            raise _LostError(f"Kubernetes does not take it: {str(error).splitlines()[0]}") from None
        subjects = SubjectCache(table(BUILT_IN))
        compile_ = partial(compile_policy, release=_RELEASE)
        bound = in_force("ValidatingAdmissionPolicy", read.loaded.policies, read.loaded.bindings, compile_)
        self._rules = [PolicyRule(one, read.parameters, subjects) for one in bound]
        self._facts = read.facts(date.min)
        self._schema = read.schema

    def violated(self, question: _Question) -> bool:
        """Whether any of them refuses, warns or audits, or fails."""
        old = question.old and self._received(question.old)
        request = _request(self._received(question.object), old, question.user, question.operation)
        return any(any(rule.validate(request, self._facts)) for rule in self._rules)

    def _received(self, obj: Json) -> Json:
        schema = self._schema(kind_of(obj))
        return admitted(received(obj, schema) if schema else dict(obj))


def _request(obj: Json, old: Json | None, user: UserInfo, operation: str) -> AdmissionRequest:
    request = manifest.request({**obj, "metadata": _placed(obj)}, old, user=user, namespace="default")
    if operation == "DELETE":
        request = replace(request, object=None, old_object=request.object)
    return replace(request, operation=operation)


def _placed(obj: Json) -> Json:
    """The metadata of an object in the Namespace to which kubectl would send it."""
    namespace = manifest.request(obj, None, user=_ALICE, namespace="default").scope_namespace
    return {**mapping(obj, "metadata"), **({"namespace": namespace} if namespace else {})}


_Asked = tuple[list[Json], list[Json], _Question]
"""Policies, what they read, and a question."""


def _kyverno(file: Path) -> Iterator[_Asked]:
    """The objects that the results in a kyverno-test.yaml name."""
    (test,) = _documents(file)
    policies, resources = (_all(file.parent, test.get(field) or ()) for field in ("policies", "resources"))
    values = [mapping(test, "values"), *_all(file.parent, [test["variables"]] if test.get("variables") else [])]
    read = _all(file.parent, [test["context"]] if test.get("context") else [])
    context = [obj for one in read for obj in mappings(mapping(one, "spec"), "resources")]
    context += [obj for one in values for obj in mappings(one, "namespaces")]
    for one in (one for value in values for one in mappings(value, "namespaceSelector")):
        metadata = {"name": one.get("name"), "labels": one.get("labels")}
        context.append({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    operations = {
        (one.get("name"), resource.get("name")): mapping(resource, "values").get("request.operation")
        for value in values
        for one in mappings(value, "policies")
        for resource in mappings(one, "resources")
    }
    for result in (one for one in mappings(test, "results") if one.get("result") in _EXPECTED):
        policy, rule = result.get("policy"), _AUTOGEN.sub("", str(result.get("rule") or ""))
        own = [one for one in policies if mapping(one, "metadata").get("name") == policy]
        for named in map(str, result.get("resources") or ()):
            for obj in (one for one in resources if _is(one, result.get("kind"), named)):
                operation = operations.get((policy, named.rpartition("/")[2])) or "CREATE"
                old = obj if operation == "UPDATE" else None
                name = f"{policy}/{rule}: {obj.get('kind')} {named}"
                yield own, context, _Question(name, obj, _EXPECTED[result["result"]], rule, operation, old)


def _is(obj: Json, kind: object, named: str) -> bool:
    """Whether an object is of a kind, and has a name, which may follow a Namespace."""
    metadata, (namespace, _, name) = mapping(obj, "metadata"), named.rpartition("/")
    return (obj.get("kind"), metadata.get("name")) == (kind, name) and namespace in ("", metadata.get("namespace"))


def _chainsaw(file: Path) -> Iterator[_Asked]:
    """The objects in the files that a chainsaw test applies. If several are refused at once, nobody knows which."""
    (test,) = _documents(file)
    policies: list[Json] = []
    context: list[Json] = []
    before: dict[str, Json] = {}
    actions = (action for step in mappings(mapping(test, "spec"), "steps") for action in mappings(step, "try"))
    for applied in (mapping(action, "apply") or mapping(action, "create") for action in actions):
        objects = _all(file.parent, [applied["file"]]) if "file" in applied else [mapping(applied, "resource")]
        policies += filter(is_foreign, objects)
        objects = [obj for obj in objects if obj and not is_foreign(obj)]
        context += [obj for obj in objects if not policies or obj.get("kind") in _READ]
        refused = "$error != null): true" in json.dumps(applied.get("expect")).replace('"', "")
        for obj in objects if policies and not (refused and len(objects) > 1) else ():
            metadata = mapping(obj, "metadata")
            name = f"{obj.get('kind')} {metadata.get('namespace') or ''}/{metadata.get('name')}"
            old = before.get(name)
            whole = merge_patch(old, obj)
            operation = "UPDATE" if old else "CREATE"
            yield list(policies), list(context), _Question(name, whole, refused, "", operation, old)
            if not refused:
                before[name] = whole


def _gatekeeper(file: Path) -> Iterator[_Asked]:
    """The cases in a suite.yaml."""
    (suite,) = _documents(file)
    for test in mappings(suite, "tests"):
        policies = _all(file.parent, [test["template"], test["constraint"]])
        for case in (one for one in mappings(test, "cases") if not one.get("inventory")):
            (obj,) = _documents(file.parent / case["object"])[:1] or [{}]
            said = [one.get("violations", "yes") for one in mappings(case, "assertions")]
            violates = any(one in ("yes", True) or (isinstance(one, int) and one > 0) for one in said)
            question = _Question(f"{test.get('name')}: {case.get('name')}", obj, violates)
            if obj.get("kind") == "AdmissionReview":
                request = mapping(obj, "request")
                user = mapping(request, "userInfo")
                question = question._replace(
                    object=mapping(request, "object") or mapping(request, "oldObject"),
                    old=request.get("oldObject"),
                    operation=str(request.get("operation") or "CREATE"),
                    user=UserInfo(str(user.get("username") or ""), groups=tuple(user.get("groups") or ())),
                )
            yield policies, [], question


_SUITES = {"kyverno-test.yaml": _kyverno, "chainsaw-test.yaml": _chainsaw, "suite.yaml": _gatekeeper}


def compare(folder: Path) -> Counter[str]:
    """Print each disagreement. How often there was which outcome, and why policies were not turned."""
    counts: Counter[str] = Counter()
    for file in sorted(path for path in folder.rglob("*.yaml") if path.name in _SUITES and path.is_file()):
        made = cache(lambda documents, context, rule: _Rules(json.loads(documents), json.loads(context), rule))
        try:
            asked = list(_SUITES[file.name](file))
        except _LostError as error:
            counts[f"left out: {error}"] += 1
            continue
        for documents, context, question in asked:
            try:
                rules = made(json.dumps(documents, default=str), json.dumps(context, default=str), question.rule)
            except _LostError as error:
                counts[f"not converted: {error}"] += 1
                continue
            agrees = rules.violated(question) == question.violates
            counts["agree" if agrees else "disagree"] += 1
            if not agrees:
                verdict = "refused" if question.violates else "admitted"
                print(f"{file.relative_to(folder)}: {question.name}: {verdict} there", flush=True)
    return counts


def main() -> int:
    """Compare all folders."""
    for name in sys.argv[1:]:
        for outcome, count in compare(Path(name)).most_common():
            print(f"{name}: {count} {outcome}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
