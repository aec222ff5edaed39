"""The vocabulary: what is known of a key, what it is also called, and what a misspelt one was meant to be."""

from __future__ import annotations

from pathlib import Path

import yaml

from policies import vocabulary
from policies.kubernetes.name import label_key

_KEYS = yaml.safe_load(Path(__file__).with_name("vocabulary.yaml").read_text(encoding="utf-8"))
_KNOWN, _MISSPELT, _OTHERS = _KEYS["known"], _KEYS["misspelt"], [*_KEYS["others"], "a" * 5000]


def test_what_a_key_says() -> None:
    """A key is known with what it says about a Node, also where it stands for several."""
    assert {name: known.sort for name in _KNOWN if (known := vocabulary.key(name))} == _KNOWN


def test_misspelt_keys() -> None:
    """A misspelt key has the right one, also under another prefix of the same cloud."""
    assert {name: vocabulary.near(name) for name in _MISSPELT} == _MISSPELT


def test_keys_of_others() -> None:
    """A key that is known, and one of which nothing is known, is near to none."""
    assert [name for name in (*_KNOWN, *_OTHERS) if vocabulary.near(name)] == []


def test_every_key_is_whole() -> None:
    """A key of the vocabulary is one that a label can have, once, and says what else to name if no place."""
    names = [key.name.replace("*", "1") for key in vocabulary.ALL]

    assert [name for name in names if label_key(name)] == []
    assert sorted(set(names)) == sorted(names)
    assert [key.name for key in vocabulary.ALL if bool(key.instead) == (key.sort == "place")] == []


def test_twins() -> None:
    """The keys that InfiniBand and RoCE share have a twin; the others have none."""
    assert vocabulary.twin("ib.coreweave.cloud/superpod") == "backend.coreweave.cloud/superpod"
    assert vocabulary.twin("backend.coreweave.cloud/speed.current") == "ib.coreweave.cloud/speed.current"
    assert vocabulary.twin("backend.coreweave.cloud/flavor") == ""


def test_forms() -> None:
    """A form fits the values that a label has, and no others."""
    clique = "8d4a0d2f-1c70-4a93-9f0f-0c4e7cf0a1b2"

    assert [value for value in ("3", "03", "a3", "", "3\n") if vocabulary.NUMBER.fits(value)] == ["3", "03"]
    assert [value for value in ("roce", "RoCE") if vocabulary.FABRICS.fits(value)] == ["roce"]
    assert [value for value in (clique, f"{clique}.1", f"{clique}.x") if vocabulary.UUID_AND_CLIQUE.fits(value)] == [
        f"{clique}.1"
    ]
