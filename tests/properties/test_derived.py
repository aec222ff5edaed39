"""The Pod derived from a template, whatever the template: nothing is changed, lost, or filled in twice."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.builders import WORKLOADS, Json, request

from policies.admissionpolicy.derivation import defaulted, derive
from policies.objects.fieldpath import lookup
from properties.shapes import bounded, everywhere, fields, json_values, odd, pod_specs, some_of

_TEXTS = st.sampled_from(["", "a", "b:latest", "v1", "x"])
_AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "hugepages-2Mi", "nvidia.com/gpu"]),
    odd(st.sampled_from(["0", "1", "1000m", "0.0001", "1Gi", "1.5G", "12e6", "x", 1, 0.5, -1])),
    max_size=3,
)
_RESOURCES = fields(limits=_AMOUNTS, requests=_AMOUNTS)
_HTTP = fields(path=_TEXTS, port=st.integers(0, 2), scheme=_TEXTS)
_PROBE = fields(httpGet=_HTTP, grpc=fields(port=st.integers(0, 1), service=_TEXTS), periodSeconds=st.integers(0, 2))
_REF = fields(fieldRef=fields(apiVersion=_TEXTS, fieldPath=_TEXTS), resourceFieldRef=fields(resource=_TEXTS))
_containers = some_of(
    fields(
        name=_TEXTS,
        image=_TEXTS,
        resources=_RESOURCES,
        restartPolicy=st.sampled_from(["Always", ""]),
        ports=some_of(fields(containerPort=st.integers(0, 2), protocol=_TEXTS, hostPort=st.integers(0, 1))),
        env=some_of(fields(name=_TEXTS, value=_TEXTS, valueFrom=_REF)),
        livenessProbe=_PROBE,
        lifecycle=fields(preStop=fields(httpGet=_HTTP)),
        securityContext=fields(privileged=st.booleans()),
        command=some_of(_TEXTS),
    )
)
_volumes = some_of(
    fields(
        name=_TEXTS,
        hostPath=fields(path=_TEXTS),
        secret=fields(secretName=_TEXTS, defaultMode=st.integers(0, 1)),
        emptyDir=fields(sizeLimit=st.sampled_from(["1024Mi", "x", 1])),
        projected=fields(sources=some_of(fields(serviceAccountToken=fields(path=_TEXTS)))),
        ephemeral=fields(volumeClaimTemplate=fields(spec=fields(resources=_RESOURCES))),
    )
)
_selector = fields(matchExpressions=some_of(fields(key=_TEXTS)))
_specs = st.one_of(
    pod_specs,
    fields(
        containers=_containers,
        initContainers=_containers,
        volumes=_volumes,
        hostNetwork=st.booleans(),
        resources=_RESOURCES,
        serviceAccountName=_TEXTS,
        serviceAccount=_TEXTS,
        terminationGracePeriodSeconds=st.integers(-1, 1),
        topologySpreadConstraints=some_of(fields(labelSelector=_selector, matchLabelKeys=some_of(_TEXTS))),
        overhead=_AMOUNTS,
    ),
)
_metadata = fields(
    labels=st.dictionaries(_TEXTS, odd(_TEXTS), max_size=2),
    annotations=st.dictionaries(
        st.sampled_from(["container.apparmor.security.beta.kubernetes.io/a", "x"]),
        odd(st.sampled_from(["unconfined", "localhost/x", ""])),
        max_size=2,
    ),
    finalizers=some_of(_TEXTS),
)
_templates = fields(metadata=_metadata, spec=_specs)


def _deployment(template: Any) -> Json:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": template}}


@bounded
@given(st.one_of(_templates, fields(metadata=json_values, spec=json_values)))
def test_defaulting_twice_is_defaulting_once(pod: Json) -> None:
    """What is filled in is left alone the next time."""
    once = defaulted(pod)

    assert defaulted(once) == once


@bounded
@given(st.one_of(_templates, fields(metadata=json_values, spec=json_values)))
def test_a_workload_is_not_changed(template: Json) -> None:
    """Deriving a Pod leaves the object as it was, and comes to the same result again."""
    obj = _deployment(template)
    before = deepcopy(obj)

    first, second = (derive(request(obj), WORKLOADS) for _ in range(2))

    assert obj == before
    assert first == second


@bounded
@given(_templates)
def test_places_lead_into_the_template(template: Json) -> None:
    """A place in the Pod is the same one in the template, or in the workload's own metadata."""
    obj = _deployment(template)
    (derived,) = derive(request(obj), WORKLOADS)

    for location, _ in everywhere(derived.pod):
        place = derived.place(location)
        if location[:1] == ("metadata",) and location[1:2] in (("name",), ("generateName",), ("namespace",)):
            assert place[:1] == ("metadata",)
        else:
            assert place == (*derived.template, *location)

    for location, found in everywhere(template):
        assert lookup(obj, derived.place(location)) == found


@bounded
@given(_templates, _templates)
def test_an_update_is_judged_where_the_template_changed(new: Json, old: Json) -> None:
    """A Pod is derived on UPDATE just where the template differs."""
    changed = derive(request(_deployment(new), old=_deployment(old)), WORKLOADS)

    assert len(changed) == (new != old)
