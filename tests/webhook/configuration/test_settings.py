"""The configuration: its defaults, every key of it, and what the command line may change."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.builders import Json

from webhook.configuration.settings import Settings, SettingsError
from webhook.configuration.settingsfile import override, read

_DEFAULTS: Json = {
    "listen": {
        "host": "0.0.0.0",  # noqa: S104
        "port": 9443,
        "maxInFlight": 512,
        "maxBytesInFlight": 67108864,
        "bodySeconds": 3.0,
        "maxConnections": 1024,
        "maxConnectionsPerAddress": 768,
        "connectionSeconds": 60.0,
        "drainSeconds": 5.0,
        "graceSeconds": 20.0,
    },
    "health": {"host": "0.0.0.0", "port": 8081},  # noqa: S104
    "tls": {
        "certFile": "",
        "keyFile": "",
        "secret": "",
        "directory": ".cks-admission/certs",
        "clientCaFile": "",
        "names": ("localhost", "127.0.0.1"),
        "checkSeconds": 10.0,
    },
    "cluster": {
        "kubeconfig": "",
        "inCluster": False,
        "serviceAccount": "",
        "namespace": "cks-admission",
        "lease": "cks-admission",
        "cutOffSeconds": 1800.0,
    },
    "manage": {
        "apart": False,
        "secret": "",
        "pods": "app.kubernetes.io/name=cks-admission,app.kubernetes.io/component=webhook",
    },
    "place": {"apart": False, "lease": "cks-admission-placer"},
    "registration": {
        "apply": False,
        "caOnly": False,
        "name": "cks-admission",
        "url": "",
        "service": "cks-admission",
        "servicePort": 443,
        "caFile": "",
        "injectCaFrom": "",
        "owner": "",
        "kept": (),
        "timeoutSeconds": 5,
        "openTimeoutSeconds": 3,
        "essentialTimeoutSeconds": 1,
    },
    "organization": {"id": "", "reservedHash": ""},
    "labels": {
        "action": "deny",
        "namespaceSelector": {"matchLabels": {}, "matchExpressions": ()},
        "exceptions": (
            {"key": "qos.coreweave.cloud/interruptable", "kinds": ("Pod",), "values": ()},
            {"key": "qos.coreweave.com/graceful-interruptible", "kinds": ("Pod",), "values": ()},
        ),
        "exempt": {"users": (), "groups": (), "serviceAccounts": (), "controlPlaneNamespaces": ()},
        "trusted": (),
    },
    "guard": {
        "namespaces": "warn",
        "taints": "warn",
        "exempt": {"users": (), "groups": (), "serviceAccounts": ()},
    },
    "tolerations": {
        "action": "warn",
        "namespaceSelector": {"matchLabels": {}, "matchExpressions": ()},
        "daemonSets": "inject",
        "accelerators": {
            "resources": (
                "nvidia.com/gpu",
                "nvidia.com/gpu.shared",
                "nvidia.com/mig-*",
                "amd.com/gpu",
                "sunk.coreweave.com/accelerator",
            ),
            "deviceClasses": ("gpu.nvidia.com", "mig.nvidia.com"),
        },
    },
    "sunk": {
        "action": "warn",
        "namespaceSelector": {"matchLabels": {}, "matchExpressions": ()},
        "daemonSets": "warn",
        "nodeSelector": {},
    },
    "selectors": {"action": "warn", "namespaceSelector": {"matchLabels": {}, "matchExpressions": ()}},
    "topology": {
        "action": "deny",
        "namespaceSelector": {"matchLabels": {}, "matchExpressions": ()},
        "preferredNotMoreSpecific": "deny",
        "unapplied": "warn",
        "workloadScheduling": "off",
        "placement": (),
        "autoscaling": "on",
        "settleSeconds": 2.0,
        "patienceSeconds": 900.0,
        "deletion": "warn",
        "facts": "",
        "default": {
            "topology": "",
            "preferred": "lowest",
            "namespaceSelector": {"matchLabels": {}, "matchExpressions": ()},
        },
        "topologies": (),
        "files": (),
        "topographPrefixes": (),
        "poolKeys": ("compute.coreweave.com/node-pool", "kai.scheduler/node-pool", "runai/node-pool"),
        "schedulers": {
            "reading": ("kai-scheduler", "runai-scheduler"),
            "labels": ("kai.scheduler/queue", "runai/queue"),
            "ignoring": ("*-slurm-scheduler", "slurm-bridge-scheduler"),
        },
    },
    "packs": {
        "interruptable-qos": {"mode": "warn", "policies": {}, "parameters": {}},
        "scheduling-safety": {"mode": "warn", "policies": {}, "parameters": {}},
        "sunk": {"mode": "warn", "policies": {}, "parameters": {}},
    },
    "policies": {
        "directories": (),
        "configMaps": True,
        "native": True,
        "kubernetes": "",
        "slow": "keep",
        "shadow": (),
    },
    "safety": {"namespaces": (), "resources": (), "users": ()},
    "workloads": (),
    "exceptions": (),
    "decisions": {
        "log": "",
        "content": "none",
        "samples": ({"verdicts": ("deny", "error"), "rules": ("*",), "share": 1.0},),
        "maxRecordBytes": 131072,
        "maxFileBytes": 67108864,
        "maxFiles": 5,
    },
    "tracing": {"endpoint": "", "share": 0.01, "ruleSeconds": 0.001},
    "events": {"refusals": True, "findings": True},
    "audit": {"record": ""},
    "help": {"url": ""},
    "log": {"level": "info", "format": "auto"},
}

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
  taints: off
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
  workloadScheduling: on
  placement:
  - topologies: [aws]
    namespaceSelector: {matchLabels: {n: o}}
    ways: [gate, affinity]
  autoscaling: off
  settleSeconds: 5
  patienceSeconds: 60
  deletion: off
  facts: topologies
  default:
    topology: halls
    preferred: example.org/hall
    namespaceSelector: {matchLabels: {k: l}, matchExpressions: [{key: m, operator: Exists}]}
  topologies:
  - name: halls
    levels:
    - example.org/site
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
  until: 2026-12-31
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
_OTHER_READ: Json = {
    "listen": {
        "host": "127.0.0.1",
        "port": 8443,
        "maxInFlight": 7,
        "maxBytesInFlight": 33554432,
        "bodySeconds": 1.5,
        "maxConnections": 77,
        "maxConnectionsPerAddress": 66,
        "connectionSeconds": 5.0,
        "drainSeconds": 1.5,
        "graceSeconds": 3.0,
    },
    "health": {"host": "127.0.0.2", "port": 0},
    "tls": {
        "certFile": "a.crt",
        "keyFile": "a.key",
        "secret": "ca",
        "directory": "here",
        "clientCaFile": "callers.crt",
        "names": ("a.example.org",),
        "checkSeconds": 0.5,
    },
    "cluster": {
        "kubeconfig": "kube.config",
        "inCluster": True,
        "serviceAccount": "sa",
        "namespace": "cloud",
        "lease": "turn",
        "cutOffSeconds": 600.0,
    },
    "manage": {"apart": True, "secret": "leaf", "pods": "a=b"},
    "place": {"apart": True, "lease": "placer"},
    "registration": {
        "apply": True,
        "caOnly": True,
        "name": "other",
        "url": "https://example.org:9443/base",
        "service": "svc",
        "servicePort": 444,
        "caFile": "ca.crt",
        "injectCaFrom": "cloud/serving",
        "owner": "cloud-role",
        "kept": ({"key": "cloud", "values": ("sys-*",)},),
        "timeoutSeconds": 30,
        "openTimeoutSeconds": 20,
        "essentialTimeoutSeconds": 2,
    },
    "organization": {"id": "a1b2c3", "reservedHash": "d4e5"},
    "labels": {
        "action": "audit",
        "namespaceSelector": {
            "matchLabels": {"tier": "gold"},
            "matchExpressions": (
                {"key": "env", "operator": "NotIn", "values": ("dev", "test")},
                {"key": "team", "operator": "Exists", "values": ()},
            ),
        },
        "exceptions": (
            {
                "key": "x.coreweave.cloud/y",
                "kinds": ("Node", "NodePool.compute.coreweave.com"),
                "values": ("a", "b"),
            },
        ),
        "exempt": {
            "users": ("op-*",),
            "groups": ("ops",),
            "serviceAccounts": ("ns/*",),
            "controlPlaneNamespaces": ("cloud",),
        },
        "trusted": ("MutatingAdmissionPolicy/cks-*",),
    },
    "guard": {
        "namespaces": "deny",
        "taints": "off",
        "exempt": {"users": ("op-*",), "groups": ("ops",), "serviceAccounts": ("*/slurm-syncer",)},
    },
    "tolerations": {
        "action": "off",
        "namespaceSelector": {
            "matchLabels": {"a": "b"},
            "matchExpressions": ({"key": "c", "operator": "DoesNotExist", "values": ()},),
        },
        "daemonSets": "warn",
        "accelerators": {"resources": ("example.org/npu-*",), "deviceClasses": ("npu.example.org",)},
    },
    "sunk": {
        "action": "deny",
        "namespaceSelector": {
            "matchLabels": {"d": "e"},
            "matchExpressions": ({"key": "f", "operator": "In", "values": ("g",)},),
        },
        "daemonSets": "inject",
        "nodeSelector": {"pool": "sunk"},
    },
    "selectors": {
        "action": "audit",
        "namespaceSelector": {
            "matchLabels": {"s": "t"},
            "matchExpressions": ({"key": "u", "operator": "Exists", "values": ()},),
        },
    },
    "topology": {
        "action": "audit",
        "namespaceSelector": {
            "matchLabels": {"h": "i"},
            "matchExpressions": ({"key": "j", "operator": "Exists", "values": ()},),
        },
        "preferredNotMoreSpecific": "warn",
        "unapplied": "deny",
        "workloadScheduling": "on",
        "placement": (
            {
                "topologies": ("aws",),
                "namespaceSelector": {"matchLabels": {"n": "o"}, "matchExpressions": ()},
                "ways": ("gate", "affinity"),
            },
        ),
        "autoscaling": "off",
        "settleSeconds": 5.0,
        "patienceSeconds": 60.0,
        "deletion": "off",
        "facts": "topologies",
        "default": {
            "topology": "halls",
            "preferred": "example.org/hall",
            "namespaceSelector": {
                "matchLabels": {"k": "l"},
                "matchExpressions": ({"key": "m", "operator": "Exists", "values": ()},),
            },
        },
        "topologies": (
            {
                "name": "halls",
                "levels": (
                    {"nodeLabel": "example.org/site", "alias": ""},
                    {"nodeLabel": "example.org/hall", "alias": "room"},
                    {"nodeLabel": "kubernetes.io/hostname", "alias": ""},
                ),
                "nodeRequirement": {
                    "matchLabels": {"n": "o"},
                    "matchExpressions": ({"key": "p", "operator": "NotIn", "values": ("q",)},),
                },
                "pool": {
                    "matchLabels": {"r": "s"},
                    "matchExpressions": ({"key": "t", "operator": "DoesNotExist", "values": ()},),
                },
            },
        ),
        "files": ("topologies", "more.json"),
        "topographPrefixes": ("example.org/switch-",),
        "poolKeys": ("example.org/pool",),
        "schedulers": {"reading": ("gang-*",), "labels": ("example.org/queue",), "ignoring": ("slurm-*",)},
    },
    "packs": {
        "interruptable-qos": {
            "mode": "enforce",
            "policies": {"interruptable-drain": "warn"},
            "parameters": {"maxTerminationGracePeriodSeconds": "60"},
        },
        "scheduling-safety": {
            "mode": "audit",
            "policies": {"node-selector": "off"},
            "parameters": {"allowedReservedValues": "mine 7"},
        },
        "sunk": {"mode": "off", "policies": {"lock-toleration": "audit"}, "parameters": {}},
    },
    "policies": {
        "directories": ("policies", "more.yaml"),
        "configMaps": False,
        "native": False,
        "kubernetes": "1.36",
        "slow": "skip",
        "shadow": ("changed",),
    },
    "safety": {"namespaces": ("cloud-system",), "resources": ("pools.example.org",), "users": ("cloud-*",)},
    "workloads": (
        {
            "group": "example.org",
            "kind": "Train",
            "templates": ("spec.template", "spec.pods[*].template"),
            "jobs": ("spec.jobTemplate",),
            "claims": ("spec.claims.*",),
            "nodeLabels": ("spec.labels",),
            "podLabels": ("spec.podLabels",),
            "changes": "always",
        },
        {
            "group": "apps.nvidia.com",
            "kind": "NIMService",
            "templates": (),
            "jobs": (),
            "claims": (),
            "nodeLabels": (),
            "podLabels": ("spec.labels",),
            "changes": "create",
        },
    ),
    "exceptions": (
        {
            "rules": ("labels", "sunk"),
            "reason": "moving house",
            "until": date(2026, 12, 31),
            "namespaces": ("team-*",),
            "kinds": ("Deployment.apps",),
            "names": ("web-?",),
            "users": ("alice",),
            "groups": ("dev",),
            "objectSelector": {"matchLabels": {"a": "b"}, "matchExpressions": ()},
        },
    ),
    "decisions": {
        "log": "decisions.jsonl",
        "content": "objects",
        "samples": ({"verdicts": ("admit", "warn"), "rules": ("labels",), "share": 0.5},),
        "maxRecordBytes": 65536,
        "maxFileBytes": 1048576,
        "maxFiles": 2,
    },
    "tracing": {"endpoint": "http://collector:4318", "share": 0.5, "ruleSeconds": 0.25},
    "events": {"refusals": False, "findings": False},
    "audit": {"record": "last-audit"},
    "help": {"url": "https://docs.example.org/{page}/#{code}"},
    "log": {"level": "debug", "format": "json"},
}


def _read(directory: Path, text: str) -> Json:
    file = directory / "cks.yaml"
    file.write_text(text, encoding="utf-8")
    return read(file).model_dump(by_alias=True)


def test_the_defaults() -> None:
    """Without a file every key has the value that the reference promises."""
    assert Settings().model_dump(by_alias=True) == _DEFAULTS


def test_every_key_can_be_set(tmp_path: Path) -> None:
    """A file that sets every key is read with every value that it gives."""
    found = _read(tmp_path, _OTHER)

    assert found == _OTHER_READ
    without = [("packs", "sunk", "parameters")]  # it has none
    assert [path for path, value in _leaves(found) if dict(_leaves(_DEFAULTS)).get(path) == value] == without


def _leaves(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every value that is no map, by its keys."""
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from _leaves(child, (*at, key))
    else:
        yield at, value


@pytest.mark.parametrize("section", list(_OTHER_READ))
def test_a_section_alone_leaves_the_others_at_their_defaults(tmp_path: Path, section: str) -> None:
    """A file with one section changes that section and no other."""
    text = yaml.safe_dump({section: yaml.safe_load(_OTHER)[section]})

    assert _read(tmp_path, text) == {**_DEFAULTS, section: _OTHER_READ[section]}


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


def test_settings_cannot_be_changed() -> None:
    """Settings are values: nobody changes them behind another's back."""
    with pytest.raises(ValueError, match="frozen"):
        setattr(Settings().listen, "port", 1)  # noqa: B010 - the type checker refuses the plain form too
