"""The pages for those who were refused: every sentence of every rule stands on one, and leads to its section."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
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
    left_out = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    left_out |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in ast.walk(node)} - {
        id(node) for node in nodes if isinstance(node, ast.JoinedStr)
    }
    for node in nodes:
        if id(node) in left_out:
            continue
        if isinstance(node, ast.JoinedStr):
            whole = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            whole = node.value
        else:
            continue
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
    """Each built-in rule has the page of its name, and each section begins with the message, then says what to do."""
    pages = {section.page for section in refused.sections()}

    assert set(rules.BUILT_IN_RULES) <= pages
    assert [one.name for one in refused.sections() if not one.messages or "What to do." not in one.text] == []


def test_the_codes_differ() -> None:
    """A code means one section."""
    names = [section.name for section in refused.sections()]

    assert len(names) == len(set(names))


def test_every_shipped_policy_has_its_section() -> None:
    """Each policy of the packs has a section of its name, which what it says leads to."""
    wrong = []
    of_packs = [section for section in refused.sections() if section.page == "packs"]
    for pack in PacksSettings.names():
        for file in packfiles.files(pack):
            for document in yamlfile.load(file.name, file.text):
                if document.value["kind"] != "ValidatingAdmissionPolicy":
                    continue
                for validation in document.value["spec"]["validations"]:
                    section = likest(of_packs, validation["message"])
                    if section is None or section.code != document.value["metadata"]["name"]:
                        wrong.append((document.value["metadata"]["name"], validation["message"]))

    assert wrong == []


def test_every_code_of_check_is_explained() -> None:
    """`why` knows each code that `check` prints, but for the policies of a cluster, whose code is their name."""
    shipped = [name for pack in PacksSettings.names() for name in packfiles.names(pack).policies]
    codes = (SCHEMA, UNREADABLE, *rules.BUILT_IN_RULES, *shipped)

    assert [code for code in codes if run("why", code).exit_code] == []


def test_what_check_says_of_objects_leads_to_its_page() -> None:
    """Each flaw of the corpus of broken manifests, and each file that cannot be read, has its section."""
    schemas = Schemas(definitions=brokenmanifests.definitions())
    said = [one.text for case in brokenmanifests.cases() for one in brokenmanifests.judged(case, schemas)]

    found = {text: likest(refused.sections(), text) for text in said}
    assert [text for text, section in found.items() if section is None or section.page != "schema"] == []


_RESERVED = "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed.\n  metadata.labels: "


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (_RESERVED + 'foo.coreweave.cloud/bar="true"\nRemove', "labels/reserved-label"),
        (_RESERVED + 'node.coreweave.cloud/state="x" must not be removed\nLeave', "labels/removed-label"),
        (_RESERVED + 'qos.coreweave.cloud/interruptable="true" has no effect on any Pod here', "labels/no-effect"),
        ('Warning: is_gpu=true:PreferNoSchedule must stay on Node "gpu-1". Let the Pods', "guard/taint"),
        (
            'denied the request: The placement cannot be used.\n  metadata: "rak" is no level of topology "coreweave".',
            "topology/placement",
        ),
        (
            "Waiting: no rack has room for 8 Pods with 64 GPUs now: the best, rack=12, has room for 4 Pods",
            "topology/waiting",
        ),
        (
            (
                'required "rack": Pod affinity keeps its Pods together (x); they are placed one by one, and some may '
                "wait while others run"
            ),
            "topology/one-by-one",
        ),
        ("The Job can never be placed.\n  x: asks for what is not there: no rack can hold 8", "topology/no-room"),
        ("spec.nodeSelector: node.coreweave.cloud/rak is no label of Nodes. Write", "selectors/misspelt"),
        ('Internal error occurred: failed calling webhook "labels.cks-admission.dev": x', "service/no-answer"),
        ("Rule 'labels' could not be evaluated (TimeoutError: x).\nIt is set", "service/not-evaluated"),
        ("ValidatingAdmissionPolicy 'mine' with binding 'b' denied request: No.", "policies/denied"),
        ("policy 'mine' with binding 'b' denied request: it failed", "policies/denied"),
    ],
)  # fmt: skip
def test_a_message_leads_to_its_section(text: str, name: str) -> None:
    """What kubectl prints leads to the section that explains it, with the values of the case in it."""
    section = likest(refused.sections(), text)

    assert section is not None
    assert section.name == name


def test_the_pages_are_reached_from_the_first_screens() -> None:
    """README and the index of the documentation begin with a link to the first page, which links all others."""
    first = (refused.folder() / "index.md").read_text(encoding="utf-8")
    links = set(re.findall(r"\(([a-z-]+)\.md\)", first))
    heads = [(_ROOT / name).read_text(encoding="utf-8").splitlines()[:15] for name in ("README.md", "docs/index.md")]

    assert links == {section.page for section in refused.sections()}
    assert [any("I was refused" in line for line in head) for head in heads] == [True, True]
