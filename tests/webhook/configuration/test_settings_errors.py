"""Mistakes in the configuration: each is named by file, line and key, with what was found and what would be right."""

from pathlib import Path

import pytest

from webhook.configuration.settings import SettingsError
from webhook.configuration.settingsfile import read

_SELECTOR = "labels:\n  namespaceSelector:\n    matchExpressions:\n    - {}\n"
_EXCEPTION = "exceptions:\n- rules: [labels]\n  reason: why\n  until: {}\n"
_FILE = "cks.yaml"
_REQUIREMENT = "labels.namespaceSelector.matchExpressions[0]"
_LIKE = "write it like spec.items[*].template"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes file names in messages short."""
    monkeypatch.chdir(tmp_path)


def _errors(text: str | bytes) -> list[str]:
    """The lines of the error."""
    file = Path(_FILE)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingsError) as caught:
        read(file)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("listn: {}\n", "1: listn: unknown key; did you mean listen?", id="section"),
        pytest.param("listen:\n  prot: 3\n", "2: listen.prot: unknown key; did you mean port?", id="key"),
        pytest.param(
            "listen:\n  drain_seconds: 3\n",
            "2: listen.drain_seconds: unknown key; did you mean drainSeconds?",
            id="snake-case",
        ),
        pytest.param(
            "log:\n  colour: red\n", "2: log.colour: unknown key; known here: level, format", id="nothing-near"
        ),
        pytest.param(
            "labels:\n  exempt:\n    user: [x]\n",
            "3: labels.exempt.user: unknown key; did you mean users?",
            id="third-level",
        ),
        pytest.param(
            _SELECTOR.format("{key: a, operator: Exists, value: x}"),
            f"4: {_REQUIREMENT}.value: unknown key; did you mean values?",
            id="in-a-list-below-a-map",
        ),
        pytest.param(
            "labels:\n  exceptions:\n  - {key: a, kinds: [Pod]}\n  - key: b\n    kinds: [Pod]\n    vals: []\n",
            "6: labels.exceptions[1].vals: unknown key; did you mean values?",
            id="second-entry",
        ),
        pytest.param(
            "workloads:\n- {group: a, kind: B, template: x}\n",
            "2: workloads[0].template: unknown key; did you mean templates?",
            id="workload",
        ),
        pytest.param(
            _EXCEPTION.format("2026-01-01\n  user: [x]"),
            "5: exceptions[0].user: unknown key; did you mean users?",
            id="exception",
        ),
        pytest.param(
            "tolerations:\n\n  # what counts\n  accelerators:\n    device: [x]\n",
            "5: tolerations.accelerators.device: unknown key; did you mean deviceClasses?",
            id="behind-a-comment",
        ),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_one(text: str, error: str) -> None:
    """A key that does not exist is an error at every level, with the one that was probably meant."""
    assert _errors(text) == [f"{_FILE}:{error}"]


_BAD = [
    ("listen:\n  port: '3'\n", "2: listen.port: input should be a valid integer, found '3'"),
    ("listen:\n  port: 70000\n", "2: listen.port: input should be less than or equal to 65535, found 70000"),
    ("listen: {port: -1}\n", "1: listen.port: input should be greater than or equal to 0, found -1"),
    ("listen: {port: true}\n", "1: listen.port: input should be a valid integer, found True"),
    ("listen: {port: 1.0}\n", "1: listen.port: input should be a valid integer, found 1.0"),
    ("listen: {host: 3}\n", "1: listen.host: input should be a valid string, found 3"),
    ("listen:\n  maxInFlight: 0\n", "2: listen.maxInFlight: input should be greater than or equal to 1, found 0"),
    (
        "listen: {drainSeconds: -1}\n",
        "1: listen.drainSeconds: input should be greater than or equal to 0, found -1",
    ),
    (
        "listen: {graceSeconds: .nan}\n",
        "1: listen.graceSeconds: input should be less than or equal to 600, found nan",
    ),
    ("tls: {checkSeconds: 0}\n", "1: tls.checkSeconds: input should be greater than 0, found 0"),
    ("tls:\n  names:\n  - a\n  - 1\n", "4: tls.names[1]: input should be a valid string, found 1"),
    ("cluster: {inCluster: 'yes'}\n", "1: cluster.inCluster: input should be a valid boolean, found 'yes'"),
    ("cluster: {namespace: ''}\n", "1: cluster.namespace: string should have at least 1 character, found ''"),
    (
        "registration: {url: 'http://x'}\n",
        "1: registration.url: string should match pattern '^(https://.*)?$', found 'http://x'",
    ),
    (
        "registration: {timeoutSeconds: 31}\n",
        "1: registration.timeoutSeconds: input should be less than or equal to 30, found 31",
    ),
    ("organization: {id: 12}\n", "1: organization.id: input should be a valid string, found 12"),
    ("labels: {action: yes}\n", "1: labels.action: input should be 'deny', 'warn', 'audit' or 'off', found True"),
    ("labels: {exempt: {groups: ['']}}\n", "1: labels.exempt.groups[0]: an empty glob matches nothing, found ''"),
    (
        "labels: {trusted: [cks-policy]}\n",
        "1: labels.trusted[0]: write kind/name, such as MutatingAdmissionPolicy/cks-*, found 'cks-policy'",
    ),
    (
        "safety: {resources: [P.]}\n",
        "1: safety.resources[0]: write the plural in lower case and its group, such as ippools.example.org, found 'P.'",
    ),
    (
        "safety: {resources: [ippools.example.org, pods]}\n",
        "1: safety.resources[1]: people write Pods, and an outage would let all of them pass, found 'pods'",
    ),
    ("labels:\n  exceptions:\n  - kinds: [Pod]\n", "3: labels.exceptions[0].key: this key is required"),
    (
        _SELECTOR.format("{key: a, operator: Is}"),
        f"4: {_REQUIREMENT}.operator: input should be 'In', 'NotIn', 'Exists' or 'DoesNotExist', found 'Is'",
    ),
    (
        "labels:\n  namespaceSelector:\n    matchLabels:\n      tier: 1\n",
        "4: labels.namespaceSelector.matchLabels.tier: input should be a valid string, found 1",
    ),
    (
        "sunk: {nodeSelector: {pool: null}}\n",
        "1: sunk.nodeSelector.pool: input should be a valid string, found None",
    ),
    (
        "tolerations: {daemonSets: on}\n",
        "1: tolerations.daemonSets: input should be 'inject', 'warn' or 'off', found True",
    ),
    (
        "workloads:\n- group: a\n  kind: B\n  templates:\n  - spec..x\n",
        f"5: workloads[0].templates[0]: 'spec..x' is not a field path from position 4 on; {_LIKE}, found 'spec..x'",
    ),
    (
        "workloads:\n- {group: a, kind: B, changes: off}\n",
        "2: workloads[0].changes: input should be 'always', 'suspended', 'create' or 'never', found False",
    ),
    (
        "topology: {deletion: refuse}\n",
        "1: topology.deletion: input should be 'deny', 'warn', 'audit' or 'off', found 'refuse'",
    ),
    (
        "topology: {preferredNotMoreSpecific: audit}\n",
        "1: topology.preferredNotMoreSpecific: input should be 'deny' or 'warn', found 'audit'",
    ),
    (
        "topology:\n  schedulers:\n    reading: ['']\n",
        "3: topology.schedulers.reading[0]: an empty glob matches nothing, found ''",
    ),
    (
        "topology:\n  files: topologies.yaml\n",
        "2: topology.files: input should be a valid tuple, found 'topologies.yaml'",
    ),
    (
        _EXCEPTION.format("soon"),
        "4: exceptions[0].until: input should be a valid date or datetime, input is too short, found 'soon'",
    ),
    ("exceptions:\n- rules: [labels]\n  until: 2026-01-01\n", "2: exceptions[0].reason: this key is required"),
    ("log: {level: loud}\n", "1: log.level: input should be 'debug', 'info', 'warning' or 'error', found 'loud'"),
]


@pytest.mark.parametrize(
    ("text", "error"),
    [pytest.param(text, error, id=f"{n}-{error.split(': ')[1]}") for n, (text, error) in enumerate(_BAD)],
)
def test_a_bad_value_is_named_with_what_was_found(text: str, error: str) -> None:
    """A value of the wrong type or out of bounds is an error with its line, its key and the value."""
    assert _errors(text) == [f"{_FILE}:{error}"]


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        pytest.param("listen: 3\n", 1, "listen", id="a-number-for-a-section"),
        pytest.param("log: {}\nlisten:\n", 2, "listen", id="nothing-for-a-section"),
        pytest.param("log: {}\nlisten: [port]\n", 2, "listen", id="a-list-for-a-section"),
        pytest.param("labels:\n  exceptions: {a: b}\n", 2, "labels.exceptions", id="a-map-for-a-list"),
        pytest.param("labels:\n  exempt:\n    users: alice\n", 3, "labels.exempt.users", id="a-string-for-a-list"),
        pytest.param("workloads:\n- Deployment\n", 2, "workloads[0]", id="a-string-for-an-entry"),
        pytest.param(
            "labels:\n  exceptions:\n  - {key: a, kinds: []}\n", 3, "labels.exceptions[0].kinds", id="an-empty-list"
        ),
        pytest.param("listen:\n  1: 2\n", 2, "listen.1", id="a-number-for-a-key"),
        pytest.param(
            _SELECTOR.format("{key: a, operator: In}"),
            4,
            _REQUIREMENT,
            id="in-without-values",
        ),
        pytest.param(
            _SELECTOR.format("{key: a, operator: Exists, values: [x]}"),
            4,
            _REQUIREMENT,
            id="exists-with-values",
        ),
    ],
)
def test_a_value_of_the_wrong_shape_is_named(text: str, line: int, key: str) -> None:
    """A map, list or text in another's place, and a selector that no API server would take, have their line and key."""
    (error,) = _errors(text)

    assert error.startswith(f"{_FILE}:{line}: {key}")


def _topology(levels: str) -> str:
    """A file with one topology; its levels begin on line 5."""
    return f"topology:\n  topologies:\n  - name: halls\n    levels:\n{levels}"


_LEVEL = "topology.topologies[0].levels"
_SPEED = "tells how a Node is connected, not where it is, and is no level; name backend.coreweave.cloud/leafgroup"
_KEY = "a level is the key of a node label, such as example.org/rack; found"


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        pytest.param(
            _topology("    - example.org/hall\n    - the hall\n"),
            [f'6: {_LEVEL}[1]: {_KEY} "the hall"'],
            id="bad-level",
        ),
        pytest.param(
            _topology("    - alias: room\n      nodeLabel: a/b/c\n"),
            [f'6: {_LEVEL}[0].nodeLabel: {_KEY} "a/b/c"'],
            id="bad-level-in-a-map",
        ),
        pytest.param(
            _topology("    - {alias: room}\n"), [f"5: {_LEVEL}[0].nodeLabel: this key is required"], id="no-label"
        ),
        pytest.param(
            _topology("    - 12\n"),
            [f"5: {_LEVEL}[0].nodeLabel: input should be a valid string, found 12"],
            id="a-number-for-a-level",
        ),
        pytest.param(
            _topology("    - ib.coreweave.cloud/speed.current\n"),
            [f'5: {_LEVEL}[0]: "ib.coreweave.cloud/speed.current" {_SPEED}'],
            id="a-label-that-is-no-level",
        ),
        pytest.param(
            _topology("    - nodeLabel: example.org/hall\n      allias: room\n"),
            [f"6: {_LEVEL}[0].allias: unknown key; did you mean alias?"],
            id="unknown-key-of-a-level",
        ),
        pytest.param(
            _topology("    - example.org/hall\n    node_requirement: {}\n"),
            ["6: topology.topologies[0].node_requirement: unknown key; did you mean nodeRequirement?"],
            id="unknown-key-of-a-topology",
        ),
        pytest.param(
            _topology("    - example.org/hall\n    pool: {matchlabels: {}}\n"),
            ["6: topology.topologies[0].pool.matchlabels: unknown key; did you mean matchLabels?"],
            id="unknown-key-of-a-selector",
        ),
        pytest.param(
            "topology:\n  default:\n    prefered: rack\n",
            ["3: topology.default.prefered: unknown key; did you mean preferred?"],
            id="unknown-key-of-the-default",
        ),
        pytest.param(
            "topology:\n  scheduler: {}\n",
            ["2: topology.scheduler: unknown key; did you mean schedulers?"],
            id="unknown-key",
        ),
        pytest.param(
            _topology("    - example.org/site\n    - example.org/hall\n    - example.org/site\n"),
            [f'7: {_LEVEL}[2]: "example.org/site" is the same level as "example.org/site"'],
            id="a-level-twice",
        ),
        pytest.param(
            _topology("    - backend.coreweave.cloud/fabric\n    - ib.coreweave.cloud/fabric\n"),
            [f'6: {_LEVEL}[1]: "ib.coreweave.cloud/fabric" is the same level as "backend.coreweave.cloud/fabric"'],
            id="a-level-under-its-older-name-too",
        ),
        pytest.param(
            _topology("    - nodeLabel: example.org/site\n      alias: example.org/hall\n    - example.org/hall\n"),
            [f'6: {_LEVEL}[0].alias: "example.org/hall" is the name of another level'],
            id="an-alias-that-is-a-label",
        ),
        pytest.param(
            _topology("    - {nodeLabel: example.org/site, alias: x}\n    - {nodeLabel: example.org/hall, alias: x}\n"),
            [f'{line}: {_LEVEL}[{line - 5}].alias: "x" is the name of another level' for line in (5, 6)],
            id="an-alias-twice",
        ),
        pytest.param(
            _topology("    - kubernetes.io/hostname\n    - example.org/hall\n"),
            [f"5: {_LEVEL}[0]: kubernetes.io/hostname is a single Node, so it must be the last level"],
            id="hostname-not-last",
        ),
        pytest.param(
            _topology("".join(f"    - example.org/level-{n}\n" for n in range(17))),
            [f"4: {_LEVEL}: a topology has 16 levels at most, found 17"],
            id="too-many-levels",
        ),
        pytest.param(
            "topology:\n  topologies:\n  - levels: [example.org/hall]\n",
            ["3: topology.topologies[0].name: this key is required"],
            id="no-name",
        ),
        pytest.param(
            "topology:\n  topologies:\n  - name: halls\n",
            ["3: topology.topologies[0].levels: this key is required"],
            id="no-levels",
        ),
        pytest.param(
            _topology("    - the hall\n    - example.org/x\n    - example.org/x\n  unapplied: maybe\n"),
            [
                "8: topology.unapplied: input should be 'deny' or 'warn', found 'maybe'",
                f'5: {_LEVEL}[0]: {_KEY} "the hall"',
                f'7: {_LEVEL}[2]: "example.org/x" is the same level as "example.org/x"',
            ],
            id="all-at-once",
        ),
    ],
)
def test_a_topology_that_is_none_is_told_with_its_place(text: str, errors: list[str]) -> None:
    """Every mistake in the topologies of a configuration has its own line, key and text, and what was found once."""
    assert _errors(text) == [f"{_FILE}:{error}" for error in errors]


@pytest.mark.parametrize("day", ["2026-02-31", "2026-13-01", "0000-01-01"])
def test_a_day_that_does_not_exist_is_an_error(day: str) -> None:
    """A date that no calendar has is a mistake in line 4 and not the end of the tool."""
    (error,) = _errors(_EXCEPTION.format(day))

    assert error.startswith(f"{_FILE}:4:")


def test_all_mistakes_are_named_at_once() -> None:
    """Whoever corrects a file sees every mistake in it, in the order of the keys' definition."""
    text = "log: {level: loud}\nlisten:\n  prot: 1\n  host: 7\nhelth: {}\n"

    assert _errors(text) == [
        f"{_FILE}:4: listen.host: input should be a valid string, found 7",
        f"{_FILE}:3: listen.prot: unknown key; did you mean port?",
        f"{_FILE}:1: log.level: input should be 'debug', 'info', 'warning' or 'error', found 'loud'",
        f"{_FILE}:5: helth: unknown key; did you mean health?",
    ]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("a\n", f"{_FILE}:1: a map of settings was expected", id="a-string"),
        pytest.param("\n\n- a\n", f"{_FILE}:3: a map of settings was expected", id="a-list"),
        pytest.param(
            "listen: {}\n---\nlisten: {}\n",
            f"{_FILE}:3: a second document; the configuration is one",
            id="two-documents",
        ),
        pytest.param(
            "listen: {}\nlog: {}\nlisten: {}\n",
            f'{_FILE}:3:1: duplicate field "listen", first on line 1',
            id="a-section-twice",
        ),
        pytest.param(
            "listen:\n  port: 1\n  port: 1\n",
            f'{_FILE}:3:3: duplicate field "listen.port", first on line 2',
            id="a-key-twice",
        ),
        pytest.param("listen: [\n", f"{_FILE}:2:1: not valid YAML: did not find expected node content", id="no-yaml"),
        pytest.param(
            "listen:\n\tport: 1\n",
            f"{_FILE}:2:1: not valid YAML: found character that cannot start any token",
            id="a-tab",
        ),
        pytest.param("listen: *x\n", f"{_FILE}:1:9: not valid YAML: found undefined alias", id="an-alias-of-nothing"),
        pytest.param(
            "listen: !run {}\n",
            f"{_FILE}:1:9: not valid YAML: could not determine a constructor for the tag '!run'",
            id="a-tag",
        ),
        pytest.param(
            b"log: \xff\n",
            f"{_FILE}: not UTF-8 text: invalid start byte at byte 5",
            id="no-utf-8",
        ),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(text: str | bytes, error: str) -> None:
    """A file that is no YAML, no map or more than one is told so, with the line."""
    assert _errors(text) == [error]


def test_a_file_that_is_not_there_is_named() -> None:
    """A missing file and a directory in its place are errors with their cause."""
    for path, cause in (("nowhere.yaml", "No such file or directory"), (".", "Is a directory")):
        with pytest.raises(SettingsError, match=cause) as caught:
            read(Path(path))
        assert str(caught.value).startswith(f"{path}: cannot be read: ")
