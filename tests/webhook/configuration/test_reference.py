"""The configuration's reference: generated from the code, complete, and what the documentation shows."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from webhook.configuration.settings import Settings
from webhook.configuration.settingsfile import WIDTH, read, reference

_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"


def test_the_reference_reads_back_to_the_defaults(tmp_path: Path) -> None:
    """What is printed as the reference is a configuration file that changes nothing."""
    file = tmp_path / "cks.yaml"
    file.write_text(reference(), encoding="utf-8")

    assert read(file) == Settings()


def test_the_page_shows_the_reference() -> None:
    """docs/reference/configuration.md holds the reference, word for word, in its one block of YAML that is so long."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", _PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)

    assert blocks.count(reference()) == 1


def _keys(model: type[BaseModel], at: str = "") -> Iterator[tuple[str, str]]:
    """Every key of a model and the models in it, with its description."""
    for field in model.model_fields.values():
        yield f"{at}{field.alias}", field.description or f"no description of {at}{field.alias}"
        for inner in _models(field.annotation):
            yield from _keys(inner, f"{at}{field.alias}.")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models(argument)


def test_every_key_is_explained() -> None:
    """Each key stands in the reference behind its own description, those of list entries too."""
    lines = [line.strip().lstrip("# ") for line in reference().splitlines()]

    for key, description in _keys(Settings):
        name = key.rpartition(".")[2]
        assert any(line == f"{name}:" or line.startswith(f"{name}: ") for line in lines), key
        assert " ".join(description.split()) in " ".join(lines), key


def test_lists_in_lists_are_explained() -> None:
    """The keys of an entry stand below their list, indented, and below one of them that is a list those of its own."""
    lines = reference().splitlines()
    first = lines.index("  topologies: []")

    assert lines[first + 1 : lines.index("  files: []") - 1] == [
        "  #   Each entry:",
        "  #   name: Name. (required)",
        "  #   levels: Levels, farthest first: node label keys, or maps of nodeLabel and alias. (required)",
        "  #     Each entry:",
        "  #     nodeLabel: Key of the label that Nodes of one domain share. (required)",
        '  #     alias: Further name of the level. (default "")',
        "  #   nodeRequirement: Label selector of Nodes that Pods may be placed on. (default {})",
        "  #   pool: Label selector of its Nodes; empty: unspecified. (default {})",
    ]


def test_every_key_outside_lists_stands_with_its_default() -> None:
    """The keys are in the order of the settings, sections and all, each with the value that it has without a file."""
    values = Settings().model_dump(mode="json", by_alias=True, exclude_defaults=False)

    def keys(sections: Any) -> list[Any]:
        return [(name, list(section) if isinstance(section, dict) else ()) for name, section in sections.items()]

    assert keys(yaml.safe_load(reference())) == keys(values)


def test_lines_are_short() -> None:
    """The reference can be read without scrolling sideways."""
    assert [line for line in reference().splitlines() if line.lstrip()[:1] == "#" and len(line) > WIDTH] == []
