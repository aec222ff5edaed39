"""`cks-admission certs`: certificates shown, issued and judged."""

import json
from pathlib import Path

import pytest
import yaml
from cryptography.x509 import load_pem_x509_certificate
from support.service.commands import last_line, run

_NAME = "cks-admission.cloud.svc"
_NO_PEM = "it has no PEM block (no line like -----BEGIN CERTIFICATE-----)"
_FOREIGN = "it was not made here, so it is not overwritten; use an empty directory, or move the file away"


def _issue(directory: str = "own", *names: str) -> list[str]:
    """What issuing says."""
    result = run("certs", "issue", "--directory", directory, *(f"--name={name}" for name in names))
    assert (result.stderr, result.exit_code) == ("", 0)
    return result.stdout.splitlines()


def test_a_directory_is_filled_and_then_kept() -> None:
    """The first run makes CA, bundle and certificate and says so; the second finds that nothing is due."""
    first, second = _issue("own", _NAME), _issue("own", _NAME)

    assert first == ["ca.crt was made: there was none", "tls.crt was made: there was none"]
    (kept,) = second
    assert kept.startswith("nothing was due: valid until ")
    assert sorted(path.name for path in Path("own").iterdir() if not path.name.startswith(".")) == [
        "ca-bundle.crt",
        "ca.crt",
        "ca.key",
        "tls.crt",
        "tls.key",
    ]


def test_a_new_name_is_a_reason_to_renew() -> None:
    """The certificate is made again for other names, by the same CA, and the reason is told."""
    _issue("own", _NAME)
    authority = Path("own/ca.crt").read_bytes()

    (reason,) = _issue("own", _NAME, "other.example.org")

    assert (reason.startswith("tls.crt was renewed: "), "other.example.org" in reason) == (True, True)
    assert Path("own/ca.crt").read_bytes() == authority


def test_certificates_are_put_into_words() -> None:
    """Each certificate of each file is described in text, JSON and YAML; the default names are this machine's."""
    _issue()
    leaf = load_pem_x509_certificate(Path("own/tls.crt").read_bytes())
    forms = {
        form: run("certs", "show", "own/tls.crt", "own/ca-bundle.crt", "-o", form).stdout
        for form in ("json", "yaml", "text")
    }

    first, second = shown = json.loads(forms["json"])
    end = f"{leaf.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC"
    keys = (
        *("file", "subject", "issuer", "serial", "names", "not_before", "not_after", "days_left", "key", "signature"),
        "fingerprint_sha256",
    )
    assert [tuple(entry) for entry in shown] == [keys] * 2
    assert (first["file"], first["names"], first["serial"], first["not_after"]) == (
        *("own/tls.crt", ["localhost", "127.0.0.1"]),
        *(f"{leaf.serial_number:x}", end),
    )
    assert (second["file"], second["subject"]) == ("own/ca-bundle.crt", first["issuer"])
    assert yaml.safe_load(forms["yaml"]) == shown
    words = {key.replace("_", " ") + ":": first[key] for key in keys} | {"names:": "localhost, 127.0.0.1"}
    assert forms["text"].startswith("".join(f"{key:<20} {value}\n" for key, value in words.items()))


def test_a_good_certificate_is_found_good() -> None:
    """Names, purpose, chain and dates are each said to be fine, and the exit code is 0."""
    _issue("own", _NAME, "127.0.0.1")
    arguments = ("certs", "verify", "own/tls.crt", "--ca", "own/ca-bundle.crt", "--name", _NAME, "--name", "127.0.0.1")

    result = run(*arguments)
    as_json = run(*arguments, "-o", "json")

    lines = result.stdout.splitlines()
    assert lines[:3] == [
        f"ok   it is for {_NAME}",
        "ok   it is for 127.0.0.1",
        "ok   it may be used by a server",
    ]
    assert all(line.startswith("ok   ") for line in lines)
    assert result.exit_code == as_json.exit_code == 0
    assert [f"ok   {finding['text']}" for finding in json.loads(as_json.stdout)] == lines


def test_a_bad_certificate_is_found_bad() -> None:
    """Another CA and another name are each a finding, and the exit code is 1."""
    _issue("own", _NAME)
    _issue("other", _NAME)

    result = run("certs", "verify", "own/tls.crt", "--ca", "other/ca-bundle.crt", "--name", "localhost")

    name, authority = [line for line in result.stdout.splitlines() if line.startswith("BAD  ")]
    assert name == f"BAD  it is not for localhost, only for {_NAME}"
    assert ("signed by" in authority, result.exit_code) == (True, 1)


@pytest.mark.parametrize(
    ("arguments", "error", "code"),
    [
        ("show", "Missing argument 'FILES...'.", 2),
        ("show nowhere.crt", "Invalid value for 'FILES...': File 'nowhere.crt' does not exist.", 2),
        ("show text.crt", f"text.crt: {_NO_PEM}", 2),
        ("verify own/tls.crt --name x", "Missing option '--ca'.", 2),
        ("verify own/tls.crt --ca own/ca.crt", "Missing option '--name'.", 2),
        ("verify text.crt --ca own/ca.crt --name x", f"text.crt: {_NO_PEM}", 2),
        ("verify own/tls.crt --ca text.crt --name x", f"text.crt: {_NO_PEM}", 2),
        ("issue --directory text.crt", "Invalid value for '--directory': Directory 'text.crt' is a file.", 2),
        ("issue --directory own --name bad_name", "not a DNS name or IP address: 'bad_name'", 2),
        ("issue --directory foreign", f"foreign: tls.crt: {_NO_PEM}; {_FOREIGN}", 3),
    ],
)
def test_what_is_wrong_is_named(arguments: str, error: str, code: int) -> None:
    """Wrong usage and unreadable input are exit code 2, a directory that cannot be used is 3, each with its cause."""
    _issue("own", _NAME)
    Path("text.crt").write_text("hello\n", encoding="utf-8")
    Path("foreign").mkdir()
    Path("foreign/tls.crt").write_text("hello\n", encoding="utf-8")

    result = run("certs", *arguments.split())

    assert (result.stdout, result.exit_code) == ("", code)
    assert last_line(result.stderr).startswith(f"Error: {error}")
