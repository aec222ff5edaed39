"""Random rules on Pods: tests of fields in the ways in which people write them, quantified and joined."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

_VALUES = {
    "restartPolicy": ["'Always'", "'Never'"],
    "dnsPolicy": ["'ClusterFirst'", "'None'"],
    "schedulerName": ["'default-scheduler'"],
    "hostNetwork": ["true"],
    "hostPID": ["true"],
    "enableServiceLinks": ["true", "false"],
    "terminationGracePeriodSeconds": ["30", "60"],
    "serviceAccountName": ["'own'"],
    "runAsNonRoot": ["true", "false"],
    "privileged": ["true"],
    "image": ["'quay.io/b'"],
    "imagePullPolicy": ["'Always'", "'IfNotPresent'"],
    "terminationMessagePolicy": ["'File'"],
    "cpu": ["'1'", "'500m'"],
    "memory": ["'2Gi'"],
    "protocol": ["'TCP'", "'UDP'"],
    "hostPort": ["1", "2"],
    "periodSeconds": ["5", "10"],
    "type": ["'Unconfined'"],
    "name": ["'main'"],
    "team": ["'a'"],
    "job-name": ["'web'", "'a'"],
    "ray.io/node-type": ["'head'", "'worker'"],
    "training.kubeflow.org/replica-type": ["'master'", "'a'"],
    "kai.scheduler/topology": ["'rack'"],
    "sizeLimit": ["'1Gi'"],
    "generateName": ["'web-'"],
}
_POD = {
    "spec": ["restartPolicy", "dnsPolicy", "schedulerName", "hostNetwork", "hostPID", "enableServiceLinks"],
    "spec.": ["terminationGracePeriodSeconds", "serviceAccountName"],
    "spec.securityContext": ["runAsNonRoot"],
    "spec.securityContext.seccompProfile": ["type"],
    "metadata.labels": ["team", "job-name", "ray.io/node-type", "training.kubeflow.org/replica-type"],
    "metadata.annotations": ["kai.scheduler/topology", "team"],
    "metadata": ["generateName"],
}
_CONTAINER = {
    "": ["image", "imagePullPolicy", "terminationMessagePolicy", "name"],
    "resources.limits": ["cpu", "memory"],
    "resources.requests": ["cpu", "memory"],
    "securityContext": ["privileged", "runAsNonRoot"],
    "livenessProbe": ["periodSeconds"],
}
_PORT = {"": ["protocol", "hostPort"]}
_VOLUME = {"emptyDir": ["sizeLimit"], "": ["name"]}
_KEYED = ("labels", "annotations", "limits", "requests")


def _step(draw: st.DrawFn, base: str, field: str, *, optional: bool) -> str:
    if not field.isidentifier():
        return f"{base}[{'?' if optional else ''}'{field}']"
    spelt = draw(st.sampled_from(["point", "index"])) if not optional else "point"
    return f"{base}{'.?' if optional else '.'}{field}" if spelt == "point" else f"{base}['{field}']"


@st.composite
def _atom(draw: st.DrawFn, base: str, table: dict[str, list[str]]) -> str:
    """A test of one field."""
    above = draw(st.sampled_from(sorted(table)))
    field = draw(st.sampled_from(table[above]))
    steps = [step for step in above.split(".") if step]
    form = draw(st.sampled_from(["equal", "default", "has", "in", "optional"]))
    value = draw(st.sampled_from(_VALUES[field]))
    optional = form in ("default", "optional")
    place = base
    for step in steps:
        place = _step(draw, place, step, optional=optional and draw(st.booleans()))
    if form == "equal":
        return f"{_step(draw, place, field, optional=False)} == {value}"
    if form == "has":
        return f"has({place}.{field})" if field.isidentifier() else f"'{field}' in {place}"
    if form == "in" and steps and steps[-1] in _KEYED:
        return f"'{field}' in {place}"
    if form == "in":
        return f"has({'.'.join([base, *steps])})" if steps else "true"
    last = _step(draw, place, field, optional=True)
    return f"{last}.hasValue()" if form == "optional" else f"{last}.orValue({value}) != {value}"


@st.composite
def _over(draw: st.DrawFn, base: str) -> str:
    """A test of containers or volumes."""
    macro = draw(st.sampled_from(["all", "exists"]))
    which = draw(st.sampled_from(["containers", "both", "volumes", "ports"]))
    if which == "volumes":
        return f"{base}.spec.?volumes.orValue([]).{macro}(v, {draw(_joined(_atom('v', _VOLUME)))})"
    if which == "ports":
        inner = draw(_joined(_atom("p", _PORT)))
        return f"{base}.spec.containers.{macro}(c, c.?ports.orValue([]).all(p, {inner}))"
    over = f"{base}.spec.containers"
    if which == "both":
        over = f"({over} + {base}.spec.?initContainers.orValue([]))"
    return f"{over}.{macro}(c, {draw(_joined(_atom('c', _CONTAINER)))})"


@st.composite
def _joined(draw: st.DrawFn, atoms: st.SearchStrategy[str]) -> str:
    """One to three tests with operators."""
    text = draw(atoms)
    for _ in range(draw(st.integers(0, 2))):
        operator, other = draw(st.sampled_from(["&&", "||"])), draw(atoms)
        text = f"({text}) {operator} {'!' if draw(st.booleans()) else ''}({other})"
    return text


_owner = st.sampled_from(["ReplicaSet", "Job", "RayCluster", "PyTorchJob", "StatefulSet"]).map(
    lambda kind: (
        f"object.metadata.?ownerReferences.orValue([]).exists(r, r.kind == '{kind}' && r.?controller.orValue(false))"
    )
)
_tests = st.one_of(_atom("object", _POD), _over("object"), _over("variables.pod"), _owner)
_old = _joined(st.one_of(_atom("oldObject", _POD), _over("oldObject"))).map(
    lambda text: f"oldObject == null || ({text})"
)


def rules() -> st.SearchStrategy[dict[str, Any]]:
    """Rules as in support/policies/publicpolicies.yaml."""
    expressions = st.lists(st.one_of(_joined(_tests), _old), min_size=1, max_size=2)
    nothing: dict[str, str] = {}
    conditions = st.one_of(st.just(nothing), _joined(_tests).map(lambda text: {"condition": text}))
    return st.builds(
        lambda texts, conditions, failing: {
            "name": "rule",
            "variables": {"pod": "object"},
            "conditions": {name: text for name, text in conditions.items() if "variables" not in text},
            "validations": [{"expression": text, "message": "No."} for text in texts],
            "failurePolicy": failing,
        },
        expressions,
        conditions,
        st.sampled_from(["Fail", "Ignore"]),
    )
