"""`cks-admission export`: the registration and the whole configuration, printed."""

import base64
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from support.policies.policydocuments import policy
from support.service.commands import run

from certs.material import new_authority
from webhook.configuration.rules import build
from webhook.configuration.settings import Settings
from webhook.configuration.settingsfile import read, reference
from webhook.registration.configurations import registered, static_policies

pytestmark = pytest.mark.usefixtures("no_packs")

_BUNDLE = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


@pytest.fixture(autouse=True)
def _files() -> None:
    Path("ca.crt").write_bytes(_BUNDLE)


def test_the_configuration_is_printed() -> None:
    """What comes out is the reference, and can be used as it is."""
    result = run("export", "configuration")
    Path("cks.yaml").write_text(result.stdout, encoding="utf-8")

    assert result.stdout == reference()
    assert read(Path("cks.yaml")) == Settings()
    assert (result.stderr, result.exit_code) == ("", 0)


def test_the_registration_is_printed() -> None:
    """The webhook configurations are YAML documents, ready for kubectl apply, or a List of JSON."""
    result = run("export", "webhook-configuration", "--webhook-url", "https://127.0.0.1:9443", "--ca-file", "ca.crt")
    as_json = run("export", "webhook-configuration", "-o", "json", "--ca-file", "ca.crt")

    settings = Settings.model_validate({"registration": {"url": "https://127.0.0.1:9443"}})
    assert list(yaml.safe_load_all(result.stdout)) == registered(settings, _BUNDLE, build(settings))
    assert "    expression: |-\n      (// reserved-label-changes\n      (object != null && " in result.stdout
    assert (result.stderr, result.exit_code) == ("", 0)
    items = registered(Settings(), _BUNDLE, build(Settings()))
    assert json.loads(as_json.stdout) == {"apiVersion": "v1", "kind": "List", "items": items}


def test_the_bundle_of_its_own_certificates_is_used() -> None:
    """Where the service keeps a CA of its own, its bundle is in the registration; a CA file wins over it."""
    Path("cks.yaml").write_text("tls: {directory: own}\n", encoding="utf-8")
    run("certs", "issue", "--directory", "own")
    found = []
    for more in ([], ["--ca-file", "ca.crt"]):
        printed = run("export", "webhook-configuration", "--config", "cks.yaml", "-o", "json", *more).stdout
        found.append(base64.b64decode(json.loads(printed)["items"][0]["webhooks"][0]["clientConfig"]["caBundle"]))

    assert found == [Path("own/ca-bundle.crt").read_bytes(), _BUNDLE]


_TWICE = "registration.apply is true: set it to false, or the API server calls the service twice"
_PARAMETERS = "spec:\n  paramKind: {apiVersion: v1, kind: ConfigMap}\n  failurePolicy"


def test_files_of_kube_apiserver_are_written() -> None:
    """A file for each plugin and the configuration; what cannot be in them is said, and old files are removed."""
    settings = (
        "registration: {apply: true}\nguard: {admission: warn}\ncluster: {namespace: cloud}\n"
        "exceptions: [{rules: [labels], reason: x, until: 2099-01-01}]\n"
    )
    Path("cks.yaml").write_text(settings, encoding="utf-8")
    params = policy("params", "true", "No.").replace("spec:\n  failurePolicy", _PARAMETERS)
    given = policy("plain", "true", "No.") + params
    Path("given.yaml").write_text(given, encoding="utf-8")
    Path("ca.crt").write_bytes(new_authority(datetime.now(UTC)).cert_pem)
    arguments = ("export", "static", "given.yaml", "--config", "cks.yaml", "--ca-file", "ca.crt", "-o", "out")

    first = run(*arguments, "--webhooks", "https://127.0.0.1:9443")
    plugins = sorted(str(path) for path in Path("out").rglob("*") if path.is_file())
    second = run(*arguments)

    names = [*(one["metadata"]["name"] for one in static_policies(read(Path("cks.yaml")))), "plain", "plain"]
    (file,) = Path("out").glob("*/*.yaml")
    found = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    kind, version = "ValidatingAdmissionPolicy", "apiserver.config.k8s.io/v1"
    folder = str(Path("out").absolute() / kind)
    folders = {"apiVersion": version, "kind": f"{kind}Configuration", "staticManifestsDir": folder}
    webhooks = (f"{phase}AdmissionWebhook" for phase in ("Mutating", "Validating"))
    expected = (f"out/{plugin}/cks-admission.yaml" for plugin in (kind, *webhooks))
    assert plugins == sorted((*expected, "out/admission.yaml"))
    assert [one["metadata"]["name"] for one in found] == [f"{name}.static.k8s.io" for name in names]
    assert {one["spec"].get("policyName", ".static.k8s.io")[-14:] for one in found} == {".static.k8s.io"}
    assert yaml.safe_load(Path("out/admission.yaml").read_text(encoding="utf-8")) == {
        "apiVersion": version,
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": kind, "configuration": folders}],
    }
    told = [
        [line for line in result.stderr.splitlines() if "left out" in line or "twice" in line]
        for result in (second, first)
    ]
    said = [
        "exceptions[0] is left out: in a file it would have no end",
        "policy params is left out: in files policies have no parameters",
    ]
    assert told == [said, [*said, _TWICE]]


@pytest.mark.parametrize(("release", "order"), [("1.37", [None, None]), ("1.38", [None, "ByName"])])
def test_mutating_webhooks_in_files_keep_their_place(release: str, order: list[str | None]) -> None:
    """Where kube-apiserver can be told: of validating ones it takes no order."""
    run("export", "static", "--kubernetes", release, "--webhooks", "https://127.0.0.1:9443", "-o", "out")

    plugins = yaml.safe_load(Path("out/admission.yaml").read_text(encoding="utf-8"))["plugins"]
    webhooks = {one["name"]: one["configuration"] for one in plugins if one["name"].endswith("Webhook")}
    assert [webhooks[f"{phase}AdmissionWebhook"].get("staticOrder") for phase in ("Validating", "Mutating")] == order


@pytest.mark.parametrize(
    ("arguments", "name", "error"),
    [
        ("--kubernetes 1.36", "a", "Kubernetes 1.36 reads no policies from files"),
        ("", "a" * 240, "the name has 239 characters at most"),
        ("", "A", "metadata.name"),
        ("--webhooks https://a --ca-file ca.crt", "a", "certificate"),
        ("--webhooks https://a?b=c", "a", "registration.url"),
    ],
)
def test_no_file_is_written_that_would_end_kube_apiserver(arguments: str, name: str, error: str) -> None:
    """What kube-apiserver does not start with is refused, and nothing is written."""
    Path("given.yaml").write_text(policy(name, "true", "No."), encoding="utf-8")

    result = run("export", "static", "given.yaml", "-o", "out", *arguments.split())

    assert (result.exit_code, error in result.stderr, Path("out").exists()) == (2, True, False), result.stderr


def test_the_configuration_decides_what_is_registered() -> None:
    """Rules, names and time-out are those of the configuration file."""
    off = "".join(f"{rule}: {{action: 'off'}}\n" for rule in ("labels", "sunk", "selectors", "topology"))
    text = (
        f"{off}tolerations: {{daemonSets: 'off'}}\n"
        "cluster: {namespace: cloud}\nregistration: {name: mine, timeoutSeconds: 3, service: svc, servicePort: 8443}\n"
    )
    Path("cks.yaml").write_text(text, encoding="utf-8")

    found = list(yaml.safe_load_all(run("export", "webhook-configuration", "--config", "cks.yaml").stdout))

    assert [(c["kind"], c["metadata"]["name"], len(c["webhooks"])) for c in found] == [
        ("MutatingWebhookConfiguration", "mine", 1),
        ("ValidatingWebhookConfiguration", "mine", 3),
    ]
    (webhook,) = found[0]["webhooks"]
    service = {"name": "svc", "namespace": "cloud", "path": "/mutate/pods", "port": 8443}
    assert (webhook["timeoutSeconds"], webhook["clientConfig"]["service"]) == (3, service)


_RULE = "{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}"
_CHANGE = f"""\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: change}}
spec:
  failurePolicy: Ignore
  reinvocationPolicy: Never
  matchConstraints: {{resourceRules: [{_RULE}]}}
  mutations: [{{patchType: JSONPatch, jsonPatch: {{expression: "[JSONPatch{{op: 'remove', path: '/x'}}]"}}}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: change}}
spec: {{policyName: change}}
"""


def test_policies_have_entries_of_their_own() -> None:
    """Those that fail closed and those that fail open are asked apart, about what they match, in any scope."""
    closed, open_ = policy("closed", "true", rule=_RULE), policy("open", "true", fail="Ignore", rule=_RULE)
    Path("policies.yaml").write_text(f"{closed}{open_}{_CHANGE}", encoding="utf-8")
    quiet = {rule: {"action": "off"} for rule in ("tolerations", "sunk", "topology", "selectors")}
    Path("cks.yaml").write_text(yaml.safe_dump(quiet), encoding="utf-8")

    result = run("export", "webhook-configuration", "--config", "cks.yaml", "--policies", "policies.yaml")

    assert result.stderr == ""
    entries = [
        (one["name"], one["clientConfig"]["service"]["path"], one["failurePolicy"], one.get("reinvocationPolicy"))
        for found in yaml.safe_load_all(result.stdout)
        for one in found["webhooks"]
        if "policies" in one["name"]
    ]
    assert entries == [
        ("policies.cks-admission.dev", "/mutate/policies", "Ignore", "Never"),
        ("policies.cks-admission.dev", "/validate/policies", "Fail", None),
        ("system-policies.cks-admission.dev", "/validate/policies", "Ignore", None),
        ("policies-ignore.cks-admission.dev", "/validate/policies-ignore", "Ignore", None),
    ]
