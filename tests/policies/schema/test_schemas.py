"""Kinds that nobody knows, and what is meant by them."""

import pytest

from policies.schema.schemas import Schemas

_GIVE = "give its CustomResourceDefinition: among the files, with --crds, or from a cluster with --kubeconfig"


@pytest.mark.parametrize(
    ("api_version", "kind", "level", "field", "remedy"),
    [
        pytest.param("apps/v1", "Deplyoment", "error", "kind", "did you mean Deployment of apps/v1?", id="kind"),
        pytest.param("v1", "Deplyoment", "error", "apiVersion", "did you mean Deployment of apps/v1?", id="both"),
        pytest.param("v1", "Pods", "error", "kind", "did you mean Pod of v1?", id="plural"),
        pytest.param("v1", "Job", "error", "apiVersion", "did you mean Job of batch/v1?", id="group"),
        pytest.param("app/v1", "DaemonSet", "error", "apiVersion", "did you mean DaemonSet of apps/v1?", id="other"),
        pytest.param("v2", "Pod", "error", "apiVersion", "did you mean Pod of v1?", id="version"),
        pytest.param("policy/v1", "PodSecurityPolicy", "error", "apiVersion", "", id="removed"),
        pytest.param("networking.k8s.io/v1", "Gatewayy", "error", "apiVersion", "", id="none-of-a-known-group"),
        pytest.param("v1", "Status", "error", "apiVersion", "did you mean StatefulSet of apps/v1?", id="no-object"),
        pytest.param(
            "scheduling.k8s.io/v1beta1", "Workload", "warning", "apiVersion",
            "enable it with --runtime-config of kube-apiserver", id="off-by-default",
        ),
        pytest.param("ray.io/v1", "RayCluster", "warning", "kind", _GIVE, id="custom"),
        pytest.param(
            "rbac.k8s.io/v1", "ClusterRole", "warning", "kind",
            f"did you mean ClusterRole of rbac.authorization.k8s.io/v1? Else {_GIVE}", id="custom-or-misspelt",
        ),
    ],
)  # fmt: skip
def test_unknown_kinds(api_version: str, kind: str, level: str, field: str, remedy: str) -> None:
    """A kind that no CRD can define is an error, any other a warning; the nearest known one is named."""
    (flaw,) = Schemas().flaws({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}})

    assert (flaw.level, flaw.path, flaw.remedy) == (level, (field,), remedy)
