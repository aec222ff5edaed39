"""The pages for those who were refused: every sentence of every rule stands on one, and leads to its section."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from support import brokenmanifests
from support.service.commands import run

from policies.engine.violation import likest
from policies.schema.schemas import Schemas
from webhook import refused
from webhook.cli.findings import UNREADABLE
from webhook.cli.judging import SCHEMA
from webhook.configuration import rules
from webhook.configuration.rulesettings import PacksSettings
from webhook.files import yamlfile
from webhook.sources import packfiles

_ROOT = Path(__file__).parents[3]
_RULES = ("labels.py", "guard.py", "tolerations.py", "topology/**/*.py", "selectors/*.py")
_SOURCES = sorted(path for pattern in (*_RULES, "vocabulary.py") for path in (_ROOT / "policies").glob(pattern))
_HINT = re.compile(
    r"\W*(or change|Add|Ask|Change|Choose|Copy|Create|Delete|Did you|If this is|Its? levels|Known|Label|Leave|Let|"
    r"Levels|List|Name|Nodes (carry|have)|Prefer|Put|Quote|Remove|Require|SUNK removes|The cloud moves|They carry|"
    r"Use a|Write|bring them|delete it|set …|to choose|It is an NVL|the id of your)"
)
"""How a sentence about what to do begins: it needs no page, it is the answer."""
_UNSEEN = re.compile(
    r"^[^ ]+$|\(\?P|weave\||neighbors|^an object between|^rollouts-|a ConfigMap has|topology\.default|layer-3$"
)
"""Keys, patterns, and what only the code or an operator's ConfigMap shows."""


def _literals(path: Path) -> Iterator[str]:
    """The texts in a module that are no docstrings, with an ellipsis for each value in them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    left_out: set[ast.AST] = {node.value for node in nodes if isinstance(node, ast.Expr)}
    joined = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    left_out |= {part for node in joined for part in ast.walk(node)} - {*joined}
    for node in nodes:
        values = node.values if isinstance(node, ast.JoinedStr) else [node] if isinstance(node, ast.Constant) else []
        whole = "".join(str(one.value) if isinstance(one, ast.Constant) else "…" for one in values)
        if whole and node not in left_out:
            yield re.sub(r"\{[0-9]?(\.\w+)*\}", "…", whole)


def _is_sentence(text: str) -> bool:
    words = re.findall(r"(?<![\w/.])[a-zA-Z]{2,}(?![\w/])", text)
    return len(words) >= 4 and not _HINT.match(text) and not _UNSEEN.search(text)


def _stands(text: str, messages: list[str]) -> bool:
    """Whether the fixed parts of a text stand in a message, in their order."""
    parts = [part for part in (" ".join(part.split()) for part in text.split("…")) if re.search(r"\w", part)]
    pattern = re.compile(".*".join(map(re.escape, parts)))
    return any(pattern.search(message) for message in messages)


def test_every_sentence_of_a_rule_stands_on_a_page() -> None:
    """Whatever a built-in rule can say is quoted on a page, word for word."""
    messages = [" ".join(message.split()) for section in refused.sections() for message in section.messages]
    sentences = {text: path.name for path in _SOURCES for text in _literals(path) if _is_sentence(text)}

    assert {text: file for text, file in sentences.items() if not _stands(text, messages)} == {}
    assert len(sentences) > 150


def test_every_rule_has_a_page_and_every_section_its_message() -> None:
    """Each built-in rule has the page of its name; a section has a name of its own, a message, and what to do."""
    sections = refused.sections()

    assert set(rules.BUILT_IN_RULES) <= {section.page for section in sections}
    assert [one.name for one in sections if not one.messages or "What to do." not in one.text] == []
    assert len({section.name for section in sections}) == len(sections)


def test_every_shipped_policy_has_its_section() -> None:
    """Each policy of the packs has a section of its name, which what it says leads to."""
    of_packs = [section for section in refused.sections() if section.page == "packs"]
    files = (file for pack in PacksSettings.names() for file in packfiles.files(pack))
    policies = (
        document.value
        for file in files
        for document in yamlfile.load(file.name, file.text)
        if document.value["kind"] == "ValidatingAdmissionPolicy"
    )
    said = [(one["metadata"]["name"], each["message"]) for one in policies for each in one["spec"]["validations"]]

    found = {(name, text): likest(of_packs, text) for name, text in said}
    assert [said for said, section in found.items() if section is None or section.code != said[0]] == []


def test_every_code_of_check_is_explained() -> None:
    """`why` knows each code that `check` prints, but for the policies of a cluster, whose code is their name."""
    shipped = [name for pack in PacksSettings.names() for name in packfiles.names(pack).policies]
    codes = (SCHEMA, UNREADABLE, *rules.BUILT_IN_RULES, *shipped)

    assert [code for code in codes if run("why", code).exit_code] == []


def test_the_name_of_a_rule_and_no_name_list_codes() -> None:
    """The name of a rule leads to all of its page; without words each code has a line, and as data its text."""
    page, lines = (run("why", *words).stdout.splitlines() for words in (["labels"], []))
    sections = refused.sections()

    assert [line for line in page if line.startswith("labels/")] == [
        section.name for section in sections if section.page == "labels"
    ]
    assert [line.split()[0] for line in lines] == [section.name for section in sections]
    assert json.loads(run("why", "-o", "json").stdout) == [
        {"code": one.name, "messages": list(one.messages), "text": one.text} for one in sections
    ]


def test_what_check_says_of_objects_leads_to_its_page() -> None:
    """Each flaw of the corpus of broken manifests, and each file that cannot be read, has its section."""
    schemas = Schemas(definitions=brokenmanifests.definitions())
    said = [one.text for case in brokenmanifests.cases() for one in brokenmanifests.judged(case, schemas)]

    found = {text: likest(refused.sections(), text) for text in said}
    assert [text for text, section in found.items() if section is None or section.page != "schema"] == []


_RESERVED = "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed.\n  metadata.labels: "
_WEBHOOK = "labels.cks-admission.dev"
_ONE_BY_ONE = "they are placed one by one, and some may wait while others run"
_MESSAGES = {
    f'{_RESERVED}foo.coreweave.cloud/bar="true"\nRemove': "labels/reserved-label",
    f'{_RESERVED}node.coreweave.cloud/state="x" must not be removed\nLeave': "labels/removed-label",
    f'{_RESERVED}qos.coreweave.cloud/interruptable="true" has no effect on any Pod here': "labels/no-effect",
    'Warning: is_gpu=true:PreferNoSchedule must stay on Node "gpu-1". Let the Pods': "guard/taint",
    'request: The placement cannot be used.\n  x: "rak" is no level of topology "coreweave".': "topology/placement",
    "Waiting: no rack has room for 8 Pods with 64 GPUs now: the best, rack=12, has room for 4": "topology/waiting",
    f'required "rack": Pod affinity keeps its Pods together (x); {_ONE_BY_ONE}': "topology/one-by-one",
    "The Job can never be placed.\n  x: asks for what is not there: no rack can hold 8": "topology/no-room",
    "spec.nodeSelector: node.coreweave.cloud/rak is no label of Nodes. Write": "selectors/misspelt",
    f'Internal error occurred: failed calling webhook "{_WEBHOOK}": x': "service/no-answer",
    "Rule 'labels' could not be evaluated (TimeoutError: x).\nIt is set": "service/not-evaluated",
    "ValidatingAdmissionPolicy 'mine' with binding 'b' denied request: No.": "policies/denied",
    "policy 'mine' with binding 'b' denied request: it failed": "policies/denied",
}


def test_a_message_leads_to_its_section() -> None:
    """What kubectl prints leads to the section that explains it, with the values of the case in it."""
    found = {text: likest(refused.sections(), text) for text in _MESSAGES}

    assert {text: section and section.name for text, section in found.items()} == _MESSAGES


def test_the_pages_are_reached_from_the_first_screens() -> None:
    """README and the index of the documentation begin with a link to the first page, which links all others."""
    first = (refused.folder() / "index.md").read_text(encoding="utf-8")
    links = set(re.findall(r"\(([a-z-]+)\.md\)", first))
    heads = [(_ROOT / name).read_text(encoding="utf-8").splitlines()[:15] for name in ("README.md", "docs/index.md")]

    assert links == {section.page for section in refused.sections()}
    assert [any("I was refused" in line for line in head) for head in heads] == [True, True]
