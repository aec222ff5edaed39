"""Suites: example requests for policies, with the expected results. This is the model, and its reader.

A suite is one YAML document, whose format is in docs/reference/suites.md. This module gets the decoded document; the
caller reads the files, also those of objects that the suite only names.

    name: interruptable-value
    policies: [policy.yaml]
    objects:
      pod: {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {...}}
    cases:
      - name: another value
        object: pod
        patch: {metadata: {labels: {qos.coreweave.cloud/interruptable: "yes"}}}
        expect: denied
        messages: ["..."]
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from policies.kubernetes.spelling import closest


def merge_patch(target: Any, patch: Any) -> Any:
    """The target with a merge patch applied: maps are merged, null removes, anything else replaces. Changes neither.

    >>> merge_patch({"a": {"b": 1, "c": 2}}, {"a": {"b": None, "d": [3]}})
    {'a': {'c': 2, 'd': [3]}}
    """
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


Json = Mapping[str, Any]
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
Verdict = Literal["allowed", "denied"]
Files = Callable[[str], Any]
"""Returns the object in a file that a suite names. Raises LookupError with the reason if that fails."""

_SUITE = ("name", "policies", "params", "user", "namespace", "derived", "objects", "cases")
_TEXTS = ("messages", "warnings", "audit")
_REQUEST = ("object", "patch", "oldObject", "oldPatch", "operation", "user", "namespace", "params")
_CASE = ("name", *_REQUEST, "derived", "expect", *_TEXTS, "patched")


class SuiteError(Exception):
    """The suite is invalid. `problems` lists everything that is wrong, each entry with its path."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class CaseUser(Struct, frozen=True, kw_only=True):
    """The user who makes the request. A user without groups is in system:authenticated only, like everybody."""

    name: str = "alice"
    groups: tuple[str, ...] = ()


class CaseNamespace(Struct, frozen=True, kw_only=True):
    """The Namespace of the object. The name is empty for a cluster-scoped object."""

    name: str = "team-a"
    labels: Mapping[str, str] = {}


class Expectation(Struct, frozen=True, kw_only=True):
    """The expected result. Each list holds complete texts without the policy's name, in the order of the policies.

    messages: of validations that refuse, or of mutations that failed. warnings: of validations whose binding warns.
    audit: of validations whose binding only writes to the audit log. patched: the whole object after the mutating
    policies; None if it does not change or is refused.
    """

    verdict: Verdict
    messages: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    audit: tuple[str, ...] = ()
    patched: Json | None = None


class Case(Struct, frozen=True, kw_only=True):
    """One request and what is expected.

    params: the data of ConfigMaps by name, merged into that of the policies' own ConfigMaps. derived: whether the case
    is judged as by the service, which includes the pod templates of workloads, or as by kube-apiserver.
    """

    name: str
    operation: Operation
    object: Json | None = None
    old_object: Json | None = None
    user: CaseUser = CaseUser()
    namespace: CaseNamespace = CaseNamespace()
    params: Mapping[str, Json] = {}
    derived: bool = False
    expect: Expectation


class Suite(Struct, frozen=True, kw_only=True):
    """Cases for policies. policies: their files, relative to the suite's folder."""

    name: str
    policies: tuple[str, ...]
    cases: tuple[Case, ...]


def no_files(name: str) -> Any:
    """Always raises LookupError. For callers that read no files."""
    raise LookupError(f"{name!r} is in a file of its own, and files are not read here")


def read(value: Any, files: Files = no_files) -> Suite:
    """The suite in a decoded document. Raises SuiteError with all problems."""
    return _Reader(files).suite(value)


class _Reader:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._problems: list[str] = []
        self._objects: Mapping[str, Any] = {}

    def suite(self, value: Any) -> Suite:
        top = self._map(value, "", _SUITE)
        self._objects = self._map(top.get("objects", {}), "objects")
        user = self._user(top.get("user"), "user", CaseUser())
        namespace = self._namespace(top.get("namespace"), "namespace", CaseNamespace())
        params = self._params(top.get("params"), "params", {})
        derived = self._flag(top, "derived", "", default=False)
        cases = [
            self._case(case, f"cases[{index}]", user, namespace, params, derived=derived)
            for index, case in enumerate(self._filled(top, "cases", ""))
        ]
        policies = self._texts(self._filled(top, "policies", ""), "policies")
        name = self._text(top, "name", "")
        names = [case.name for case in cases]
        for twice in sorted({name for name in names if name and names.count(name) > 1}):
            self._problem("cases", f"{twice!r} is the name of more than one case")
        if self._problems:
            raise SuiteError(self._problems)
        return Suite(name=name, policies=policies, cases=tuple(cases))

    def _case(
        self,
        value: Any,
        path: str,
        user: CaseUser,
        namespace: CaseNamespace,
        params: Mapping[str, Json],
        *,
        derived: bool,
    ) -> Case:
        fields = self._map(value, path, _CASE)
        obj = self._object(fields, "object", "patch", path)
        old = self._object(fields, "oldObject", "oldPatch", path)
        if "object" not in fields and "oldObject" not in fields:
            self._problem(path, "a case needs an object, an oldObject, or both")
        name, usual = self._text(fields, "name", path), "UPDATE" if "oldObject" in fields else "CREATE"
        operation: Operation = fields.get("operation", usual if "object" in fields else "DELETE")
        if operation not in get_args(Operation):
            self._problem(f"{path}.operation", f"{operation!r} is not one of {', '.join(get_args(Operation))}")
        case = Case(
            name=name,
            operation=operation,
            object=obj,
            old_object=old,
            user=self._user(fields.get("user"), f"{path}.user", user),
            namespace=self._namespace(fields.get("namespace"), f"{path}.namespace", namespace),
            params=self._params(fields.get("params"), f"{path}.params", params),
            derived=self._flag(fields, "derived", path, default=derived),
            expect=Expectation(verdict="denied" if fields.get("expect") == "denied" else "allowed"),
        )
        texts = {name: self._texts(fields.get(name, ()), f"{path}.{name}") for name in _TEXTS}
        is_denied, has_messages = case.expect.verdict == "denied", bool(texts["messages"])
        if fields.get("expect") not in get_args(Verdict):
            self._problem(f"{path}.expect", f"{fields.get('expect')!r} is neither allowed nor denied")
        if is_denied and not has_messages:
            self._problem(f"{path}.messages", "a case that is denied says with which messages")
        if not is_denied and has_messages:
            self._problem(f"{path}.messages", "a case that is allowed has no messages; it may have warnings")
        if is_denied and "patched" in fields:
            self._problem(f"{path}.patched", "a case that is denied changes nothing")
        if obj is None and "patched" in fields:
            self._problem(f"{path}.patched", "there is no object to change")
        patched = merge_patch(obj, self._map(fields.get("patched", {}), f"{path}.patched"))
        changed = None if patched == (obj or {}) else patched
        return replace(case, expect=replace(case.expect, patched=changed, **texts))

    def _object(self, fields: Json, name: str, patch: str, path: str) -> Json | None:
        """The object with its patch applied. It is given by a name in `objects`, as `file: NAME`, or as it is."""
        if name not in fields:
            if patch in fields:
                self._problem(f"{path}.{patch}", f"there is no {name} to patch")
            return None
        obj = self._given(fields[name], f"{path}.{name}")
        if obj is None:
            return None
        patched: Json = merge_patch(obj, self._map(fields.get(patch, {}), f"{path}.{patch}"))
        for key in ("apiVersion", "kind"):
            if not isinstance(patched.get(key), str):
                self._problem(f"{path}.{name}", f"an object needs {key}")
        if not isinstance(patched.get("metadata"), Mapping):
            self._problem(f"{path}.{name}", "an object needs metadata")
        return patched

    def _given(self, value: Any, path: str) -> Json | None:
        if isinstance(value, str):
            if value not in self._objects:
                self._problem(path, f"there is no object {value!r}{_did_you_mean(value, self._objects)}")
                return None
            return self._given(self._objects[value], f"objects.{value}")
        fields = self._map(value, path)
        if set(fields) != {"file"}:
            return fields
        try:
            return self._map(self._files(str(fields["file"])), f"{path}.file")
        except LookupError as error:
            self._problem(f"{path}.file", str(error.args[0]))
            return None

    def _user(self, value: Any, path: str, default: CaseUser) -> CaseUser:
        if value is None:
            return default
        fields = self._map(value, path, ("name", "groups"))
        return CaseUser(
            name=self._text(fields, "name", path), groups=self._texts(fields.get("groups", ()), f"{path}.groups")
        )

    def _namespace(self, value: Any, path: str, default: CaseNamespace) -> CaseNamespace:
        if value is None:
            return default
        fields = self._map(value, path, ("name", "labels"))
        labels = self._map(fields.get("labels", {}), f"{path}.labels")
        return CaseNamespace(name=str(fields.get("name", default.name)), labels=self._strings(labels, f"{path}.labels"))

    def _params(self, value: Any, path: str, default: Mapping[str, Json]) -> Mapping[str, Json]:
        given = self._map({} if value is None else value, path)
        maps = {name: self._map(data, f"{path}.{name}") for name, data in given.items()}
        own = {name: self._strings(data, f"{path}.{name}") for name, data in maps.items()}
        return {**default, **{name: {**default.get(name, {}), **data} for name, data in own.items()}}

    def _strings(self, fields: Json, path: str) -> dict[str, str]:
        for key, value in fields.items():
            if not isinstance(value, str):
                self._problem(f"{path}.{key}", f"{value!r} is not a string: write it in quotes")
        return {key: str(value) for key, value in fields.items()}

    def _map(self, value: Any, path: str, allowed: tuple[str, ...] = ()) -> Json:
        """The value if it is a map, else an empty map. `allowed`: the only keys that it may have; empty allows any."""
        if not isinstance(value, Mapping):
            self._problem(path, "a map is expected here")
            return {}
        for key in value if allowed else ():
            if key not in allowed:
                self._problem(f"{path}.{key}", f"there is no such field{_did_you_mean(str(key), allowed)}")
        return value

    def _filled(self, fields: Json, name: str, path: str) -> list[Any]:
        value = fields.get(name)
        if not isinstance(value, list) or not value:
            self._problem(f"{path}.{name}", "a list is expected here, with at least one item")
            return []
        return value

    def _flag(self, fields: Json, name: str, path: str, *, default: bool) -> bool:
        value = fields.get(name, default)
        if not isinstance(value, bool):
            self._problem(f"{path}.{name}", "true or false is expected here")
        return value is True

    def _texts(self, value: Any, path: str) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
            self._problem(path, "a list of strings is expected here")
            return ()
        return tuple(value)

    def _text(self, fields: Json, name: str, path: str) -> str:
        value = fields.get(name)
        if not isinstance(value, str) or not value:
            self._problem(f"{path}.{name}", "a string is expected here")
            return ""
        return value

    def _problem(self, path: str, text: str) -> None:
        self._problems.append(f"{path.lstrip('.') or 'the suite'}: {text}")


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    near = closest(word, known)
    return f"; did you mean {near!r}?" if near else ""
