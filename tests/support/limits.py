"""Objects in Namespaces with LimitRanges and ResourceQuotas, and what a real API server makes of them."""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from policies.admissionpolicy import schema
from policies.admissionpolicy.builtin.defaults import kind_of, received
from policies.admissionpolicy.builtin.plugins import Limits, admitted
from policies.engine.request import UserInfo
from policies.kubernetes.release import NEWEST, Release
from webhook.files import manifest

Json = dict[str, Any]
_FILE = Path(__file__).parents[1] / "policies/admissionpolicy/builtin/limits.yaml"
_VERSIONS = {"Deployment": "apps/v1"}
_BETWEEN = re.compile(r", (?=minimum |maximum |\S+ max limit)")


class Case(NamedTuple):
    """context: the LimitRanges and ResourceQuotas. answer: the API server's."""

    name: str
    context: list[Json]
    object: Json
    answer: Json


def cases() -> list[Case]:
    """Return all cases."""
    return [_case(written) for written in yaml.load(_FILE.read_text(encoding="utf-8"), yaml.CSafeLoader)]


def _case(written: Json) -> Case:
    kind = written.get("kind", "Pod")
    obj: Json = {"apiVersion": _VERSIONS.get(kind, "v1"), "kind": kind, "metadata": {"name": "a"}}
    if spec := written.get("spec"):
        obj["spec"] = deepcopy(spec)
        for pod in (obj["spec"], (obj["spec"].get("template") or {}).get("spec") or {}):
            for prefix, field in (("c", "containers"), ("i", "initContainers")):
                pod[field] = [{"name": f"{prefix}{i}", "image": "a", **one} for i, one in enumerate(pod.get(field, ()))]
                if not pod[field]:
                    del pod[field]
    ranges = [("LimitRange", {"limits": written["limits"]})] if "limits" in written else []
    context = [
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": f"own-{index}"}, "spec": spec}
        for index, (kind, spec) in enumerate([*ranges, *(("ResourceQuota", one) for one in written.get("quota", ()))])
    ]
    return Case(written["name"], context, obj, written["answer"])


def judged(case: Case, release: Release = NEWEST) -> Json:
    """Return what we say of a case, in the form of its answer."""
    *context, obj = (
        admitted(received(one, schema.known(kind_of(one), release))) for one in (*case.context, case.object)
    )
    limits = Limits(context, "default")
    if obj["kind"] == "Pod":
        limits.fill(obj, "default")
    request = manifest.request(obj, None, user=UserInfo("user"), namespace="default")
    refused = [refusal.message for refusal in limits.refusals(obj, request.resource, "default")]
    return {"refused": sorted(refused)} if refused else admission(obj)


def admission(obj: Json) -> Json:
    """Return what a Pod got, as far as these cases are about it."""
    if obj["kind"] != "Pod":
        return {}
    containers = [one for field in ("containers", "initContainers") for one in obj["spec"].get(field, ())]
    note = (obj["metadata"].get("annotations") or {}).get("kubernetes.io/limit-ranger", "")
    return {"resources": [one.get("resources", {}) for one in containers], "note": note}


def refusal(message: str) -> Json:
    """Return the answer that is in the message of a Status."""
    if "is invalid: " in message:
        return {"refused": [message.partition("is invalid: ")[2].partition(": ")[2]]}
    text = message.partition("is forbidden: ")[2]
    return {"refused": sorted(_BETWEEN.split(text.removeprefix("[").removesuffix("]")))}
