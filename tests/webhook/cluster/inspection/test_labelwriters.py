"""What can write labels past the guard is read from the cluster."""

from __future__ import annotations

import pytest
from support.api.fakeapi import FakeApi

from policies.labelpolicy import LabelWriter
from webhook.cluster.api.call import DEFINITIONS
from webhook.cluster.api.client import Connection
from webhook.cluster.inspection.examination import label_writers
from webhook.configuration.settings import Settings

POLICIES, BINDINGS = "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_what_can_write_labels(server: FakeApi, api: Connection, version: str) -> None:
    """Bound policies in the version that is served, and conversions; not what is trusted or without a binding."""
    kinds = {POLICIES: "MutatingAdmissionPolicy", BINDINGS: "MutatingAdmissionPolicyBinding"}
    server.install("admissionregistration.k8s.io", {version: kinds})
    definitions = {"v1": {"customresourcedefinitions": "CustomResourceDefinition"}}
    server.install("apiextensions.k8s.io", definitions, namespaced=False)
    root = f"/apis/admissionregistration.k8s.io/{version}"
    spec = {"mutations": [{"jsonPatch": {"expression": "'coreweave.cloud/x'"}}]}
    for name in ("bad", "unbound", "cks-a"):
        server.put(f"{root}/{POLICIES}", {"metadata": {"name": name}, "spec": spec})
        if name != "unbound":
            server.put(f"{root}/{BINDINGS}", {"metadata": {"name": name}, "spec": {"policyName": name}})
    hook = {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"namespace": "ops", "name": "hook"}}}}
    for name, conversion in (("a.example.org", hook), ("b.example.org", {"strategy": "None"})):
        versions = [{"name": "v1"}, {"name": "v2"}]
        server.put(DEFINITIONS, {"metadata": {"name": name}, "spec": {"versions": versions, "conversion": conversion}})
    settings = Settings.model_validate({"labels": {"trusted": ["MutatingAdmissionPolicy/cks-*"]}})

    assert await label_writers(api, settings) == [
        LabelWriter(
            "MutatingAdmissionPolicy", "bad", "reserved", "its expressions name reserved labels: coreweave.cloud/x"
        ),
        LabelWriter(
            "CustomResourceDefinition",
            "a.example.org",
            "possible",
            "its conversion webhook, ops/hook, may change the labels of its objects after admission",
        ),
    ]
