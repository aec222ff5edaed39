"""We refuse the same policies and bindings as the real API server, with the same text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.policies import randompolicies
from support.policies.refusedpolicies import Case, cases, without_own_words

from cluster.apicalls import Caller
from cluster.programs import judged_as
from policies.admissionpolicy.documents.document import Document, Problem
from policies.admissionpolicy.documents.reader import read
from policies.cel.environment import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = pytest.mark.differs("documents")
CASES = {name: case for name, case in cases(judged_as()).items() if case.served}
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}
_RANDOM = 1000
_DRY_RUN = "dryRun=All&fieldValidation=Strict"


def create(caller: Caller, document: dict[str, Any]) -> dict[str, Any]:
    """What the API server answers to a strict dry run."""
    return caller.send("POST", f"/apis/{document['apiVersion']}/{PLURALS[document['kind']]}?{_DRY_RUN}", document).body


def said(answer: dict[str, Any], document: dict[str, Any]) -> list[str]:
    """Each thing that is wrong in the answer's words; the decoder names no field before its words."""
    if answer["kind"] != "Status":
        return []
    if answer["reason"] == "Invalid":
        return [f"{cause['field']}: {cause['message']}" for cause in answer["details"]["causes"]]
    kind, version = document["kind"], document["apiVersion"].rpartition("/")[2]
    words = answer["message"].removeprefix(f'{kind} in version "{version}" cannot be handled as a {kind}: ')
    strict = words.removeprefix("strict decoding error: ")
    return [words] if strict == words else sorted(strict.split(", "))


def decoder(says: list[str]) -> list[str]:
    """Our words without the fields."""
    return sorted(text.split(": ", 1)[1] for text in says)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_api_server_says_the_same(caller: Caller, case: Case) -> None:
    """The real API server names the same fields in the same words and order, or takes the document as we do."""
    answer = create(caller, case.document)

    says = case.says if answer.get("reason") in (None, "Invalid") else decoder(case.says)
    assert said(answer, case.document) == says


def test_api_server_says_the_same_of_random_documents(
    caller: Caller, record_property: Callable[[str, object], None]
) -> None:
    """A thousand documents with mistakes that nobody thought of: same fields, same words, same order."""
    wrong, reasons = [], set()
    record_property("cases", _RANDOM)
    for document in randompolicies.documents(seed=5, count=_RANDOM):
        answer = create(caller, document)
        ours = [problem.text for problem in read_one(document)]
        reasons.add(answer.get("reason"))
        if answer.get("reason") in (None, "Invalid"):
            same = [*map(without_own_words, said(answer, document))] == [*map(without_own_words, ours)]
        else:  # the API server's decoder stops at the first value of a wrong type, and then validates nothing
            same = {*map(without_own_words, said(answer, document))} <= {*map(without_own_words, decoder(ours))}
        if not same:
            wrong.append((document, said(answer, document), ours))

    assert wrong == []
    assert reasons == {None, "Invalid", "BadRequest"}


def read_one(document: dict[str, Any]) -> list[Problem]:
    """The errors of a document alone, but for the missing policy of a binding."""
    written = Document(value=document, name="policy.yaml", places=lambda _: (1, 1))
    found = read([written], dialect=Dialect(judged_as())).errors
    return [problem for problem in found if not problem.message.startswith("Not found: ")]
