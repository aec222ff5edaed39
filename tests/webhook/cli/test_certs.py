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


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes file names in messages short."""
    monkeypatch.chdir(tmp_path)


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

    assert reason.startswith("tls.crt was renewed: ")
    assert "other.example.org" in reason
    assert Path("own/ca.crt").read_bytes() == authority


def test_the_default_names_are_this_machines() -> None:
    """Without names the certificate is for localhost."""
    _issue()

    (shown,) = json.loads(run("certs", "show", "own/tls.crt", "-o", "json").stdout)
    assert shown["names"] == ["localhost", "127.0.0.1"]


def test_certificates_are_put_into_words() -> None:
    """Each certificate of each file is described, in text, JSON and YAML alike."""
    _issue("own", _NAME, "10.0.0.1")
    leaf = load_pem_x509_certificate(Path("own/tls.crt").read_bytes())

    as_json = run("certs", "show", "own/tls.crt", "own/ca-bundle.crt", "-o", "json")
    as_yaml = run("certs", "show", "own/tls.crt", "own/ca-bundle.crt", "-o", "yaml")
    as_text = run("certs", "show", "own/tls.crt", "own/ca-bundle.crt")

    shown = json.loads(as_json.stdout)
    assert [list(entry) for entry in shown] == [
        [
            "file", "subject", "issuer", "serial", "names", "not_before", "not_after", "days_left", "key", "signature",
            "fingerprint_sha256",
        ]
    ] * 2  # fmt: skip
    assert [entry["file"] for entry in shown] == ["own/tls.crt", "own/ca-bundle.crt"]
    assert shown[0]["names"] == [_NAME, "10.0.0.1"]
    assert shown[0]["serial"] == f"{leaf.serial_number:x}"
    assert shown[0]["not_after"] == f"{leaf.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC"
    assert shown[0]["issuer"] == shown[1]["subject"]
    assert yaml.safe_load(as_yaml.stdout) == shown
    for entry in shown:
        lines = [f"{key.replace('_', ' ') + ':':<20} {_text(value)}" for key, value in entry.items()]
        assert "\n".join(lines) + "\n" in as_text.stdout


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


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

    bad = [line for line in result.stdout.splitlines() if line.startswith("BAD  ")]
    assert bad[0] == f"BAD  it is not for localhost, only for {_NAME}"
    assert len(bad) == 2
    assert "signed by" in bad[1]
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "error", "code"),
    [
        pytest.param("show", "Error: Missing argument 'FILES...'.", 2, id="show-nothing"),
        pytest.param(
            "show nowhere.crt",
            "Error: Invalid value for 'FILES...': File 'nowhere.crt' does not exist.",
            2,
            id="show-missing",
        ),
        pytest.param(
            "show text.crt",
            f"Error: text.crt: {_NO_PEM}",
            2,
            id="show-no-pem",
        ),
        pytest.param("verify own/tls.crt --name x", "Error: Missing option '--ca'.", 2, id="verify-without-ca"),
        pytest.param(
            "verify own/tls.crt --ca own/ca.crt", "Error: Missing option '--name'.", 2, id="verify-without-name"
        ),
        pytest.param(
            "verify text.crt --ca own/ca.crt --name x",
            f"Error: text.crt: {_NO_PEM}",
            2,
            id="verify-no-pem",
        ),
        pytest.param(
            "verify own/tls.crt --ca text.crt --name x",
            f"Error: text.crt: {_NO_PEM}",
            2,
            id="verify-ca-no-pem",
        ),
        pytest.param(
            "issue --directory text.crt",
            "Error: Invalid value for '--directory': Directory 'text.crt' is a file.",
            2,
            id="issue-into-a-file",
        ),
        pytest.param(
            "issue --directory foreign",
            f"Error: foreign: tls.crt: {_NO_PEM}; {_FOREIGN}",
            3,
            id="issue-over-another's",
        ),
    ],
)
def test_what_is_wrong_is_named(arguments: str, error: str, code: int) -> None:
    """Wrong usage and unreadable input are exit code 2, a directory that cannot be used is 3, each with its cause."""
    _issue("own", _NAME)
    Path("text.crt").write_text("hello\n", encoding="utf-8")
    Path("foreign").mkdir()
    Path("foreign/tls.crt").write_text("hello\n", encoding="utf-8")

    result = run("certs", *arguments.split())

    assert (result.stdout, last_line(result.stderr), result.exit_code) == ("", error, code)


def test_a_name_that_no_certificate_can_carry_is_wrong_usage() -> None:
    """A bad name on the command line is exit code 2, with what is wrong with it."""
    result = run("certs", "issue", "--directory", "own", "--name", "bad name")

    assert last_line(result.stderr).startswith("Error: not a DNS name or IP address: 'bad name'")
    assert result.exit_code == 2
