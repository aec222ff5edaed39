"""The configuration: its defaults, every key of it, and what the command line may change."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.builders import Json

from webhook.configuration.settings import Settings, SettingsError
from webhook.configuration.settingsfile import override, read

_DEFAULTS: Json = Settings().model_dump(by_alias=True)

# Every key there is, none with its default.
_OTHER = """
listen:
  {host: 127.0.0.1, port: 8443, maxInFlight: 7, maxBytesInFlight: 33554432, bodySeconds: 1.5,
   maxConnections: 77, maxConnectionsPerAddress: 66, connectionSeconds: 5, drainSeconds: 1.5, graceSeconds: 3}
health: {host: 127.0.0.2, port: 0}
tls:
  certFile: a.crt
  keyFile: a.key
  secret: ca
  directory: here
  clientCaFile: callers.crt
  names: [a.example.org]
  checkSeconds: 0.5
cluster: {kubeconfig: kube.config, inCluster: true, serviceAccount: sa, namespace: cloud, lease: turn,
  cutOffSeconds: 600}
manage: {apart: true, secret: leaf, pods: a=b}
place: {apart: true, lease: placer}
registration:
  apply: true
  caOnly: true
  name: other
  url: https://example.org:9443/base
  service: svc
  servicePort: 444
  caFile: ca.crt
  injectCaFrom: cloud/serving
  owner: cloud-role
  kept: [{key: cloud, values: ["sys-*"]}]
  timeoutSeconds: 30
  openTimeoutSeconds: 20
  essentialTimeoutSeconds: 2
organization: {id: a1b2c3, reservedHash: d4e5}
labels:
  action: audit
  namespaceSelector:
    matchLabels: {tier: gold}
    matchExpressions:
    - {key: env, operator: NotIn, values: [dev, test]}
    - {key: team, operator: Exists}
  exceptions:
  - {key: x.coreweave.cloud/y, kinds: [Node, NodePool.compute.coreweave.com], values: [a, b]}
  exempt: {users: [op-*], groups: [ops], serviceAccounts: [ns/*], controlPlaneNamespaces: [cloud]}
  trusted: [MutatingAdmissionPolicy/cks-*]
guard:
  namespaces: deny
  taints: "off"
  exempt: {users: [op-*], groups: [ops], serviceAccounts: ["*/slurm-syncer"]}
tolerations:
  action: "off"
  namespaceSelector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: DoesNotExist}]}
  daemonSets: warn
  accelerators: {resources: [example.org/npu-*], deviceClasses: [npu.example.org]}
selectors:
  action: audit
  namespaceSelector: {matchLabels: {s: t}, matchExpressions: [{key: u, operator: Exists}]}
sunk:
  action: deny
  namespaceSelector: {matchLabels: {d: e}, matchExpressions: [{key: f, operator: In, values: [g]}]}
  daemonSets: inject
  nodeSelector: {pool: sunk}
topology:
  action: audit
  namespaceSelector: {matchLabels: {h: i}, matchExpressions: [{key: j, operator: Exists}]}
  preferredNotMoreSpecific: warn
  unapplied: deny
  workloadScheduling: "on"
  placement:
  - topologies: [aws]
    namespaceSelector: {matchLabels: {n: o}}
    ways: [gate, affinity]
  autoscaling: "off"
  settleSeconds: 5
  patienceSeconds: 60
  deletion: "off"
  facts: topologies
  default:
    topology: halls
    preferred: example.org/hall
    namespaceSelector: {matchLabels: {k: l}, matchExpressions: [{key: m, operator: Exists}]}
  topologies:
  - name: halls
    levels:
    - nodeLabel: example.org/site
    - nodeLabel: example.org/hall
      alias: room
    - {nodeLabel: kubernetes.io/hostname}
    nodeRequirement: {matchLabels: {n: o}, matchExpressions: [{key: p, operator: NotIn, values: [q]}]}
    pool: {matchLabels: {r: s}, matchExpressions: [{key: t, operator: DoesNotExist}]}
  files: [topologies, more.json]
  topographPrefixes: [example.org/switch-]
  poolKeys: [example.org/pool]
  schedulers: {reading: [gang-*], labels: [example.org/queue], ignoring: [slurm-*]}
packs:
  interruptable-qos:
    {mode: enforce, policies: {interruptable-drain: warn}, parameters: {maxTerminationGracePeriodSeconds: 60}}
  scheduling-safety:
    {mode: audit, policies: {node-selector: off}, parameters: {allowedReservedValues: [mine, "7"]}}
  sunk: {mode: off, policies: {lock-toleration: audit}}
policies: {directories: [policies, more.yaml], configMaps: false, native: false, kubernetes: "1.36", slow: skip,
  shadow: [changed]}
safety: {namespaces: [cloud-system], resources: [pools.example.org], users: [cloud-*]}
workloads:
- group: example.org
  kind: Train
  templates: ["spec.template", "spec.pods[*].template"]
  jobs: ["spec.jobTemplate"]
  claims: ["spec.claims.*"]
  nodeLabels: ["spec.labels"]
  podLabels: ["spec.podLabels"]
  changes: always
- NIMService
exceptions:
- rules: [labels, sunk]
  reason: moving house
  until: "2026-12-31"
  namespaces: [team-*]
  kinds: [Deployment.apps]
  names: ["web-?"]
  users: [alice]
  groups: [dev]
  objectSelector: {matchLabels: {a: b}}
decisions:
  log: decisions.jsonl
  content: objects
  samples: [{verdicts: [admit, warn], rules: [labels], share: 0.5}]
  maxRecordBytes: 65536
  maxFileBytes: 1048576
  maxFiles: 2
events: {refusals: false, findings: false}
audit: {record: last-audit}
tracing: {endpoint: "http://collector:4318", share: 0.5, ruleSeconds: 0.25}
help: {url: "https://docs.example.org/{page}/#{code}"}
log: {level: debug, format: json}
"""


def _read(directory: Path, text: str) -> Json:
    file = directory / "cks.yaml"
    file.write_text(text, encoding="utf-8")
    return read(file).model_dump(by_alias=True)


def test_every_key_can_be_set(tmp_path: Path) -> None:
    """A file that sets every key is read with every value that it gives, and none of them is a default."""
    file = tmp_path / "cks.yaml"
    file.write_text(_OTHER, encoding="utf-8")
    found, given = read(file).model_dump(mode="json", by_alias=True), yaml.safe_load(_OTHER)
    short = ("packs", "workloads")  # what is written in a shorter form, and numbers that become texts

    assert {key: _given(value, given[key]) for key, value in found.items() if key not in short} == {
        key: value for key, value in given.items() if key not in short
    }
    assert found["packs"]["scheduling-safety"]["parameters"] == {"allowedReservedValues": "mine 7"}
    assert [row["kind"] for row in found["workloads"]] == ["Train", "NIMService"]
    defaults, without = (
        dict(_leaves(Settings().model_dump(mode="json", by_alias=True))),
        ("packs", "sunk", "parameters"),
    )
    assert [path for path, value in _leaves(found) if defaults.get(path) == value] == [without]


def _given(value: Any, given: Any) -> Any:
    """A value without the keys that are not given."""
    if isinstance(given, dict):
        return {key: _given(value[key], part) for key, part in given.items()}
    if isinstance(given, list):
        return [_given(*pair) for pair in zip(value, given, strict=True)]
    return value


def _leaves(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every value that is no map, by its keys."""
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from _leaves(child, (*at, key))
    else:
        yield at, value


@pytest.mark.parametrize("section", list(_DEFAULTS))
def test_a_section_alone_leaves_the_others_at_their_defaults(tmp_path: Path, section: str) -> None:
    """A file with one section changes that section and no other."""
    text = yaml.safe_dump({section: yaml.safe_load(_OTHER)[section]})

    assert _read(tmp_path, text) == {**_DEFAULTS, section: _read(tmp_path, _OTHER)[section]}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("# nothing yet\n", id="a-comment"),
        pytest.param("---\n", id="an-empty-document"),
        pytest.param("{}\n", id="an-empty-map"),
        pytest.param("listen: {}\nlabels: {exempt: {}}\n", id="empty-sections"),
        pytest.param("{}\n---\n---\n# end\n", id="empty-documents-behind"),
        pytest.param("\ufefflisten: {}\n", id="a-byte-order-mark"),
    ],
)
def test_a_file_that_sets_nothing_is_all_defaults(tmp_path: Path, text: str) -> None:
    """An empty file, and one that only names sections, is a configuration like any other."""
    assert _read(tmp_path, text) == _DEFAULTS


def test_json_is_read_as_well(tmp_path: Path) -> None:
    """A configuration in JSON is one in YAML."""
    assert _read(tmp_path, '{"listen": {"port": 1}, "log": {"level": "error"}}') == {
        **_DEFAULTS,
        "listen": {**_DEFAULTS["listen"], "port": 1},
        "log": {**_DEFAULTS["log"], "level": "error"},
    }


def test_the_command_line_wins() -> None:
    """Values of the command line replace single keys and leave what the file says of others."""
    file = Settings.model_validate({"listen": {"port": 1, "host": "127.0.0.1"}, "log": {"level": "error"}})

    changed = override(file, [("listen.port", 2), ("cluster.inCluster", True), ("log.format", "json")])

    assert changed.model_dump(by_alias=True) == {
        **_DEFAULTS,
        "listen": {**_DEFAULTS["listen"], "port": 2, "host": "127.0.0.1"},
        "cluster": {**_DEFAULTS["cluster"], "inCluster": True},
        "log": {"level": "error", "format": "json"},
    }
    assert file.listen.port == 1


def test_no_changes_change_nothing(tmp_path: Path) -> None:
    """Settings of every key survive the way through the command line."""
    file = tmp_path / "cks.yaml"
    file.write_text(_OTHER, encoding="utf-8")

    assert override(read(file), []) == read(file)


def test_what_is_wrong_on_the_command_line_is_said_at_once() -> None:
    """Bad values of the command line are named by their keys, all of them."""
    with pytest.raises(SettingsError) as caught:
        override(Settings(), [("listen.port", 70000), ("log.level", "loud"), ("registration.url", "http://x")])

    assert str(caught.value).splitlines() == [
        "command line: listen.port: input should be less than or equal to 65535, found 70000",
        "command line: registration.url: string should match pattern '^(https://.*)?$', found 'http://x'",
        "command line: log.level: input should be 'debug', 'info', 'warning' or 'error', found 'loud'",
    ]


def test_a_level_is_its_label(tmp_path: Path) -> None:
    """The label key alone is a whole level: it is read as the map of it is, within a list of both forms too."""
    head = "topology:\n  topologies:\n  - name: halls\n    levels: "
    short = _read(tmp_path, f"{head}[example.org/site, {{nodeLabel: example.org/hall}}]\n")
    long = _read(tmp_path, f"{head}[{{nodeLabel: example.org/site, alias: ''}}, example.org/hall]\n")

    assert short == long
    assert short["topology"]["topologies"][0]["levels"] == (
        {"nodeLabel": "example.org/site", "alias": ""},
        {"nodeLabel": "example.org/hall", "alias": ""},
    )
