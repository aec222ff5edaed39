"""The table of the resources that an API server serves by itself."""

from cluster.servedresources import compact_resources

from policies.admissionpolicy.builtin import table
from policies.admissionpolicy.builtin.table import ApiResource
from policies.engine.request import GroupVersionKind


def test_resources_know_their_kinds_and_scopes() -> None:
    """A resource has the kind of its own group and version, a subresource perhaps one of another."""
    named = {(each.group, each.name): each for each in table.served_resources()}

    scale = GroupVersionKind("autoscaling", "v1", "Scale")
    assert named["apps", "deployments/scale"] == ApiResource("apps", "v1", "deployments/scale", scale, "Namespaced")
    assert named["", "nodes"] == ApiResource("", "v1", "nodes", GroupVersionKind("", "v1", "Node"), "Cluster")


def test_compact_table_is_made_from_discovery() -> None:
    """A group and version has its resources by scope; only a kind from elsewhere is written with group and version."""
    found = {
        "groupVersion": "apps/v1",
        "resources": [
            {"name": "deployments", "kind": "Deployment", "namespaced": True, "verbs": ["get"]},
            {"name": "deployments/scale", "kind": "Scale", "group": "autoscaling", "version": "v1", "namespaced": True},
            {"name": "things", "kind": "Thing", "namespaced": False, "shortNames": ["th"]},
        ],
    }

    assert compact_resources([found]) == {
        "apps/v1": {
            "Cluster": {"things": "Thing"},
            "Namespaced": {"deployments": "Deployment", "deployments/scale": "autoscaling/v1/Scale"},
        }
    }
