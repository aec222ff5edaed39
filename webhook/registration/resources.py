"""The kinds by which the API server asks about writes, and their resources."""

ADMISSION = "admissionregistration.k8s.io"
API_VERSION = f"{ADMISSION}/v1"
CONFIGURATIONS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
POLICIES = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
"""Those that the service writes or follows; it only lists mutating policies."""
