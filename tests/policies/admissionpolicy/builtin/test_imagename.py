"""The tag of an image's name. The API server's answers are in tests/cluster/test_pod_defaults.py."""

from __future__ import annotations

import pytest

from policies.admissionpolicy.builtin.imagename import tag_of

DIGEST = "@sha256:" + "0a" * 32
TAGS: dict[str, str] = {
    "app": "latest",
    "app:1": "1",
    "app:latest": "latest",
    f"app{DIGEST}": "",
    f"app@sha256:{'01' * 32}": "",
    f"app:1{DIGEST}": "1",
    f"app:1{DIGEST.upper()}": "",
    "app:1@sha256:" + "A0" * 32: "",
    "app:1@md5:" + "a0" * 16: "",
    "": "",
    "App": "",
    "App/app": "latest",
    "registry.example.org:5000/app": "latest",
    "registry.example.org:5000/app:v1": "v1",
    "registry.example.org/App:v1": "",
    "localhost/app:v1": "v1",
    "index.docker.io/app:v1": "v1",
    "docker.io/library/app:v1": "v1",
    "team/app:v1": "v1",
    "team//app:v1": "",
    "[::1]:5000/app:v1": "v1",
    "app:v1:v2": "",
    "app:": "",
    "app:-x": "",
    f"app:{'x' * 128}": "x" * 128,
    f"app:{'x' * 129}": "",
    "a" * 64: "",
    f"{'g' * 64}:v1": "v1",
    f"{'x' * 256}:v1": "",
    "x" * 5000: "",
    "app name": "",
    "app\n": "",
}


@pytest.mark.parametrize(("image", "tag"), TAGS.items(), ids=lambda text: text[:24])
def test_tags(image: str, tag: str) -> None:
    """`latest` where nothing else is said, nothing for a digest alone and for what is no image's name."""
    assert tag_of(image) == tag
