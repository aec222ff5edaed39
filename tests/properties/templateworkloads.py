"""Random workloads of every kind in the table, with the fields that policies on Pods read."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from support.templates import written

from policies.objects.fieldpath import Pattern, Wildcard
from policies.objects.workload import Workload

Json = dict[str, Any]


def fields(**usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """A map with any of the fields."""
    return st.fixed_dictionaries({}, optional=usual)


_BOOLEANS = st.sampled_from([True])  # the API server leaves out false
_NAMES = st.sampled_from(["main", "side", "init"])
_AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.sampled_from(["1", "2Gi", "500m", "8Gi"]), min_size=1
)
_SECURITY = fields(
    privileged=_BOOLEANS,
    allowPrivilegeEscalation=st.booleans(),
    readOnlyRootFilesystem=_BOOLEANS,
    runAsNonRoot=st.booleans(),
    procMount=st.sampled_from(["Default", "Unmasked"]),
    capabilities=fields(add=st.lists(st.sampled_from(["CHOWN", "SYS_ADMIN"]), min_size=1, max_size=2)),
    seccompProfile=st.fixed_dictionaries({"type": st.sampled_from(["RuntimeDefault", "Unconfined"])}),
    seLinuxOptions=fields(type=st.sampled_from(["container_t", "spc_t"]), user=st.just("root")),
)
_PROBES = fields(httpGet=st.just({"port": 80}), periodSeconds=st.sampled_from([1, 5, 30]))
_CONTAINERS = st.builds(
    lambda name, image, rest: {"name": name, "image": image, **rest},
    _NAMES,
    st.sampled_from(
        ["registry.example.com/a:1", "quay.io/b", "c:latest", "registry.example.com:5000/a", "a@sha256:" + 64 * "0"]
    ),
    fields(
        imagePullPolicy=st.sampled_from(["Always", "Never"]),
        resources=fields(limits=_AMOUNTS, requests=_AMOUNTS),
        securityContext=_SECURITY,
        ports=st.lists(
            st.builds(
                lambda port, rest: {"containerPort": port, **rest},
                st.integers(1, 3),
                fields(hostPort=st.integers(1, 2), protocol=st.just("UDP")),
            ),
            min_size=1,
            max_size=2,
        ),
        livenessProbe=_PROBES,
        readinessProbe=_PROBES,
    ),
)
_VOLUMES = st.builds(
    lambda name, rest: {"name": name, **rest},
    _NAMES,
    st.one_of(
        st.just({}),
        st.just({"hostPath": {"path": "/"}}),
        st.just({"emptyDir": {"medium": "Memory"}}),
        st.just({"secret": {"secretName": "a"}}),
        st.just({"nfs": {"server": "a", "path": "/"}}),
    ),
)
_SPECS = st.builds(
    lambda containers, rest: {"containers": containers, **rest},
    st.lists(_CONTAINERS, min_size=1, max_size=2),
    fields(
        initContainers=st.lists(_CONTAINERS, min_size=1, max_size=1),
        volumes=st.lists(_VOLUMES, min_size=1, max_size=2),
        hostNetwork=_BOOLEANS,
        hostPID=_BOOLEANS,
        restartPolicy=st.sampled_from(["Always", "Never"]),
        securityContext=fields(
            runAsNonRoot=st.booleans(),
            sysctls=st.lists(
                st.builds(
                    lambda name: {"name": name, "value": "1"},
                    st.sampled_from(["kernel.msgmax", "net.ipv4.tcp_syncookies"]),
                ),
                min_size=1,
                max_size=1,
            ),
            seccompProfile=st.fixed_dictionaries({"type": st.sampled_from(["RuntimeDefault", "Unconfined"])}),
            windowsOptions=fields(hostProcess=_BOOLEANS),
        ),
        terminationGracePeriodSeconds=st.sampled_from([1, 60, 90]),
        enableServiceLinks=st.booleans(),
        serviceAccountName=st.sampled_from(["own", "default"]),
        automountServiceAccountToken=st.booleans(),
        nodeSelector=st.dictionaries(st.sampled_from(["example.com/a", "b"]), st.just("c"), min_size=1),
        runtimeClassName=st.just("kata"),
    ),
)
_TEXTS = st.sampled_from(["a", "b", "true"])
_LABELS = st.dictionaries(
    st.sampled_from(
        ["app.kubernetes.io/name", "team", "job-name", "training.kubeflow.org/replica-type", "ray.io/node-type"]
    ),
    _TEXTS,
    min_size=1,
    max_size=4,
)
_ANNOTATIONS = st.dictionaries(
    st.sampled_from(["a", "container.apparmor.security.beta.kubernetes.io/other"]),
    st.sampled_from(["runtime/default", "unconfined"]),
    min_size=1,
)
templates = st.builds(
    lambda spec, rest: {"spec": spec, **rest}, _SPECS, fields(metadata=fields(labels=_LABELS, annotations=_ANNOTATIONS))
)
_KEYS = st.sampled_from(["Master", "Worker", "Launcher"])


def workloads(row: Workload) -> st.SearchStrategy[Json]:
    """Objects of a kind with random templates at some of their places."""
    version = "v1" if row.group in ("", "apps", "batch") else "v2"
    head = {"apiVersion": f"{row.group}/{version}".lstrip("/"), "kind": row.kind, "metadata": {"name": "web"}}
    surely = row.group in ("", "apps", "batch")
    drawn = st.tuples(*(_at(row, pattern, surely=surely) for pattern in row.templates))
    return drawn.map(lambda parts: _merged([{**head}, *parts]))


def _at(row: Workload, pattern: Pattern, *, surely: bool) -> st.SearchStrategy[Any]:
    """Objects of a kind with templates at a pattern. surely: whether they all have one."""
    if not pattern:
        return templates.map(lambda template: written(row, template))
    step, below = pattern[0], _at(row, pattern[1:], surely=surely)
    if step is Wildcard.ITEMS:
        names = st.sampled_from(["one", "two"])
        item = st.builds(lambda name, part: {"name": name, "groupName": name, **part}, names, below)
        return st.lists(item, max_size=2)
    if step is Wildcard.VALUES:
        return st.dictionaries(_KEYS, below, max_size=2)
    present = below.map(lambda part: {str(step): part})
    # Some templates are absent; what is around them is there.
    return present if surely or len(pattern) > 1 else st.one_of(present, present, present, st.just({}))


def _merged(parts: list[Any]) -> Any:
    """Maps put together, below their common keys too."""
    whole: Any = {}
    for part in parts:
        for key, value in part.items():
            old = whole.get(key)
            whole[key] = _merged([old, value]) if isinstance(old, dict) and isinstance(value, dict) else value
    return whole
