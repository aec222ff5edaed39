"""What fields must be together, as pkg/apis/*/validation in k8s.io/kubernetes says it; the commonest of it.

Each rule gets a map whose fields have the right types. Sources are named in the modules; tests/schema has a corpus with
the answers of a real API server.
"""

from __future__ import annotations

from collections.abc import Mapping

from policies.schema.rules import config, containers, network, pods, selectors, volumes, workloads
from policies.schema.shape import Rule

OF_TYPES: Mapping[str, tuple[Rule, ...]] = {
    "apps.v1.DaemonSetSpec": (workloads.daemon_set,),
    "apps.v1.DeploymentSpec": (workloads.deployment,),
    "apps.v1.ReplicaSetSpec": (workloads.replica_set,),
    "apps.v1.StatefulSetSpec": (workloads.stateful_set,),
    "autoscaling.v1.HorizontalPodAutoscalerSpec": (workloads.autoscaler,),
    "autoscaling.v2.HorizontalPodAutoscalerSpec": (workloads.autoscaler,),
    "batch.v1.JobSpec": (workloads.job,),
    "core.v1.ConfigMap": (config.config_map,),
    "core.v1.Container": (containers.container,),
    "core.v1.EnvVar": (containers.variable,),
    "core.v1.LifecycleHandler": (containers.handler,),
    "core.v1.NodeSelectorRequirement": (selectors.node_requirement,),
    "core.v1.PersistentVolumeClaimSpec": (volumes.claim,),
    "core.v1.PodSpec": (pods.pod,),
    "core.v1.PodTemplateSpec": (pods.template,),
    "core.v1.Probe": (containers.handler,),
    "core.v1.ReplicationControllerSpec": (workloads.replication_controller,),
    "core.v1.ResourceRequirements": (containers.resources,),
    "core.v1.Secret": (config.secret,),
    "core.v1.ServiceSpec": (network.service,),
    "core.v1.Toleration": (pods.toleration,),
    "core.v1.TopologySpreadConstraint": (pods.spread,),
    "core.v1.Volume": (volumes.volume,),
    "networking.v1.HTTPIngressPath": (network.path,),
    "networking.v1.IngressBackend": (network.backend,),
    "policy.v1.PodDisruptionBudgetSpec": (workloads.budget,),
    "rbac.v1.PolicyRule": (config.role_rule,),
    "rbac.v1.ClusterRoleBinding": (config.cluster_binding,),
    "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement": (selectors.requirement,),
}
"""By short name of the type."""
