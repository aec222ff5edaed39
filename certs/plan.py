"""Decides whether to keep or renew certificates, and why; and the directory in which one process at a time does so.

What decides is pure: stored bytes in, bytes to store out.

A stored file is our own if it names our CA, if it is empty or truncated PEM, or if it is a key beside files that name
our CA. Somebody else made any other file, and overwriting it could destroy the only copy. A caller that may overwrite
foreign files, because the name of its Secret is reserved, catches ForeignFileError and plans as if nothing were stored.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from cryptography import x509

from certs.errors import ForeignFileError, KeyMismatchError, PairError, PemError, StoreError
from certs.material import (
    LEAF_LIFETIME,
    Authority,
    Bundle,
    Leaf,
    authority_subject,
    covers,
    issued_by,
    join_pair,
    listed,
    load_certificates,
    load_key,
    may_sign,
    merge,
    moment,
    new_authority,
    titled,
    weakness,
)

CA_CERT: Final = "ca.crt"
CA_KEY: Final = "ca.key"
LEAF_CERT: Final = "tls.crt"
LEAF_KEY: Final = "tls.key"
BUNDLE: Final = "ca-bundle.crt"

# The problem of files that do not exist yet: creating them is not a renewal.
NONE: Final = "there was none"
_T = TypeVar("_T")


class StoredPair(NamedTuple):
    """The contents of a pair of files: a pair, or else a `problem`, the reason to make a new one.

    certificates: those that could be read, with or without their key.
    """

    pair: Leaf | None = None
    problem: str = ""
    certificates: tuple[x509.Certificate, ...] = ()


def find_authority(stored: Mapping[str, bytes]) -> StoredPair:
    """Our CA in `ca.crt` and `ca.key`. Raises ForeignFileError if one of them was not made here."""
    return _find(stored, CA_CERT, CA_KEY, lambda certificate: _is_ours(certificate.subject) and may_sign(certificate))


def find_leaf(stored: Mapping[str, bytes]) -> StoredPair:
    """The leaf in `tls.crt` and `tls.key`, issued by a CA of ours.

    Raises ForeignFileError if one of them was not made here.
    """
    return _find(stored, LEAF_CERT, LEAF_KEY, lambda certificate: _is_ours(certificate.issuer))


def _find(
    stored: Mapping[str, bytes], cert_name: str, key_name: str, is_own: Callable[[x509.Certificate], bool]
) -> StoredPair:
    if cert_name not in stored and key_name not in stored:
        return StoredPair(problem=NONE)
    chain = _parsed(stored, cert_name, load_certificates)
    if not isinstance(chain, str) and not is_own(chain[0]):
        raise _foreign(cert_name, f"it holds {titled(chain[0].subject)}, issued by {titled(chain[0].issuer)}")
    key = _parsed(stored, key_name, load_key)
    if isinstance(chain, str):
        is_lone = cert_name not in stored and not isinstance(key, str)
        if is_lone and not any(_names_us(stored.get(name, b"")) for name in (CA_CERT, LEAF_CERT, BUNDLE)):
            raise _foreign(key_name, f"it holds a private key and there is no {cert_name} to tell whose")
        return StoredPair(problem=chain)
    if isinstance(key, str):
        return StoredPair(problem=key, certificates=chain)
    try:
        return StoredPair(pair=join_pair(chain, key), certificates=chain)
    except KeyMismatchError as error:
        return StoredPair(problem=str(error), certificates=chain)
    except PairError as error:
        raise _foreign(cert_name, str(error)) from error


def _parsed(stored: Mapping[str, bytes], name: str, parse: Callable[[bytes], _T]) -> _T | str:
    """The parsed file, or the reason why it can be replaced."""
    if name not in stored:
        return f"{name} is missing"
    try:
        return parse(stored[name])
    except (PemError, PairError) as error:
        if isinstance(error, PemError) and error.damaged:
            return f"{name} is damaged: {error}"
        raise _foreign(name, str(error)) from error


def _foreign(name: str, reason: str) -> ForeignFileError:
    return ForeignFileError(f"{name}: {reason}; it was not made here")


def _is_ours(name: x509.Name) -> bool:
    return name == authority_subject()


def _names_us(text: bytes) -> bool:
    try:
        return any(_is_ours(certificate.issuer) for certificate in load_certificates(text))
    except PemError:
        return False


def authority_renewal_due(certificate: x509.Certificate) -> datetime:
    """The moment (aware, UTC) at which two thirds of a CA's lifetime are over.

    A part fits lifetimes of an hour and of a year; a margin does not. As in cert-manager: renewals are rare, and a
    third of a year is left for retries.
    """
    start = certificate.not_valid_before_utc
    return start + (certificate.not_valid_after_utc - start) * 2 / 3


def leaf_renewal_due(certificate: x509.Certificate) -> datetime:
    """The moment (aware, UTC) at which half of a leaf's lifetime is over.

    A leaf lives for days, and whoever renews it may be down for some of them.
    """
    start = certificate.not_valid_before_utc
    return start + (certificate.not_valid_after_utc - start) / 2


def renewal_reason(leaf: Leaf, now: datetime, *, names: Iterable[str], authority: Authority) -> str | None:
    """All reasons to renew the leaf now, joined by `; `; None if it can still be served.

    Names that are no longer needed are not a reason, because a leaf lives for days only.
    """
    certificate, reasons = leaf.certificate, []
    if missing := tuple(name for name in names if not covers(leaf.names, name)):
        reasons.append(f"it is not for {listed(missing)}, only for {listed(leaf.names)}")
    reasons += _life_reasons(certificate, now, leaf_renewal_due(certificate), "half of its life was over")
    if not issued_by(certificate, authority.certificate):
        reasons.append(
            f"it is signed by another CA than the current one: its issuer is {titled(certificate.issuer)},"
            f" the current CA {titled(authority.certificate.subject)} with SHA-256 {authority.fingerprint}"
        )
    return "; ".join((*reasons, *filter(None, [weakness(certificate)]))) or None


def authority_renewal_reason(authority: Authority, now: datetime) -> str | None:
    """All reasons to renew the CA now, joined by `; `; None if it can still sign what it should."""
    certificate = authority.certificate
    due = authority_renewal_due(certificate)
    reasons = _life_reasons(certificate, now, due, "two thirds of its life were over")
    if not reasons and now + LEAF_LIFETIME > authority.not_after:
        reasons.append(f"a leaf issued now would outlive it: it ends on {moment(authority.not_after)}")
    return "; ".join((*reasons, *filter(None, [weakness(certificate)]))) or None


def _life_reasons(certificate: x509.Certificate, now: datetime, due: datetime, over: str) -> list[str]:
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < start:
        return [f"it is not valid before {moment(start)} and it is {moment(now)}: a clock was set back"]
    if now > end:
        return [f"it expired on {moment(end)}"]
    return [f"{over} on {moment(due)}; it ends on {moment(end)}"] if now >= due else []


@dataclass(frozen=True, slots=True)
class Ensured:
    """A leaf that can be served now, the CA that signed it, and the bundle that makes clients trust it.

    When the CA is new, publish `bundle` to the clients before serving `leaf`. Until then they do not know the new CA,
    but they still trust the leaf that is being served.
    """

    leaf: Leaf
    authority: Authority
    bundle: Bundle
    reasons: tuple[str, ...] = ()
    """What was made, renewed or dropped, and why; one sentence each, for the log. Empty: nothing changed."""
    writes: Mapping[str, bytes] = field(default_factory=dict)
    """The files to store before it takes effect, in the order of writing."""


@dataclass(frozen=True, slots=True)
class AuthorityPlan:
    """The CA to use and its bundle, the reasons for what changed, and the files to store, in the order of writing."""

    authority: Authority
    bundle: Bundle
    reasons: tuple[str, ...]
    writes: Mapping[str, bytes]
    problem: str = ""
    """Why `authority` is a new one. Empty: it is the stored one."""


def plan(stored: Mapping[str, bytes], names: Iterable[str], now: datetime) -> Ensured:
    """Decide about CA, bundle and leaf. `stored` maps file names to contents; absent files have no entry.

    Raises ForeignFileError where a file was not made here; InvalidNameError and CertificateError as `Authority.issue`
    does.
    """
    trust = plan_authority(stored, now)
    leaf, reason = plan_leaf(stored, trust.authority, names, now, trusted=True)
    writes = {**trust.writes, LEAF_CERT: leaf.cert_pem, LEAF_KEY: leaf.key_pem} if reason else trust.writes
    reasons = (*trust.reasons, reason) if reason else trust.reasons
    return Ensured(leaf, trust.authority, trust.bundle, reasons, writes)


def plan_authority(
    stored: Mapping[str, bytes], now: datetime, *, remembered: Iterable[x509.Certificate] = ()
) -> AuthorityPlan:
    """Decide about CA and bundle alone.

    remembered: the bundle that was stored before. It is used if the stored one is missing or damaged, because clients
    may trust only those CAs. A stored bundle that can be read takes precedence, even if CAs are missing from it.

    Raises ForeignFileError where a file was not made here.
    """
    stored_authority = find_authority(stored)
    pair, reason = stored_authority.pair, stored_authority.problem
    authority = Authority((pair.certificate,), pair.key) if pair is not None else None
    if authority is not None:
        reason = authority_renewal_reason(authority, now) or ""
    reasons: list[str] = []
    writes: dict[str, bytes] = {}
    if authority is None or reason:
        authority = new_authority(now)
        reasons.append(_line(CA_CERT, reason))
        # The certificate before its key, in both pairs: if a crash separates them, it still shows whose files they are.
        writes = {CA_CERT: authority.cert_pem, CA_KEY: authority.key_pem}
    # The bundle may contain CAs of others.
    read = _parsed(stored, BUNDLE, load_certificates) if BUNDLE in stored else NONE
    known, problem = ((), read) if isinstance(read, str) else (read, "")
    lost = remembered if problem else ()
    bundle = merge((authority.certificate, *stored_authority.certificates, *known, *lost), now)
    if problem or set(bundle) != set(known):
        # The bundle is first: nobody should see what a new CA signs before the bundle that contains this CA.
        is_new, writes = bool(writes), {BUNDLE: bundle.pem, **writes}
        for certificate in dict.fromkeys(known):
            if certificate not in bundle:
                end = moment(certificate.not_valid_after_utc)
                reasons.append(f"{BUNDLE} no longer holds {titled(certificate.subject)}, which expired on {end}")
        if problem and not (is_new and problem == NONE):
            reasons.append(_line(BUNDLE, problem))
        elif not problem and not is_new and not set(bundle) <= set(known):
            reasons.append(_line(BUNDLE, "the current CA was missing from it"))
    return AuthorityPlan(authority, bundle, tuple(reasons), writes, reason)


def usable_authority(stored: Mapping[str, bytes], now: datetime) -> Authority | None:
    """The stored CA, if clients accept what it signs, even if it has to be renewed soon.

    None if there is no CA, or it is damaged, or it was not made here.
    """
    with suppress(ForeignFileError):
        if (pair := find_authority(stored).pair) and pair.not_before <= now < pair.not_after:
            return Authority((pair.certificate,), pair.key)
    return None


def plan_leaf(
    stored: Mapping[str, bytes], authority: Authority, names: Iterable[str], now: datetime, *, trusted: bool
) -> tuple[Leaf, str]:
    """The leaf to serve, and the reason if it is a new one, which has to be stored; else an empty text.

    trusted: whether clients know the CA. Until they do, a stored leaf that is valid stays, whatever is due. If the CA
    itself is about to expire, a new leaf expires with it.

    Raises ForeignFileError where a file was not made here; InvalidNameError and CertificateError as `Authority.issue`
    does.
    """
    names = tuple(names)
    stored_leaf = find_leaf(stored)
    pair, reason = stored_leaf.pair, stored_leaf.problem
    if pair is not None:
        reason = renewal_reason(pair, now, names=names, authority=authority) or ""
        if not reason or (pair.not_before <= now <= pair.not_after and not trusted):
            return pair, ""
    issued = authority.issue(names, now, lifetime=min(LEAF_LIFETIME, authority.not_after - now))
    return issued, _line(LEAF_CERT, reason)


def _line(name: str, reason: str) -> str:
    return f"{name} was {'made' if reason == NONE else 'renewed'}: {reason}"


# The limit of a Kubernetes Secret (1 MiB). No legitimate file is larger; a device or a log would be.
_LARGEST: Final = 1024 * 1024

_REMEDIES: Final[Mapping[int, str]] = MappingProxyType(
    {
        errno.EACCES: "give the user that this process runs as the right to it, or use another place",
        errno.EPERM: "give the file to the user that this process runs as, or use another place",
        errno.EROFS: "the file system is read-only: use a writable volume, such as an emptyDir",
        errno.ENOSPC: "the file system is full: free some space",
        errno.EISDIR: "a directory stands where a file belongs: move it away",
        errno.ENOTDIR: "a file stands where a directory belongs: use another place",
        errno.EEXIST: "a file stands where a directory belongs: use another place",
    }
)


def read_file(path: Path) -> bytes:
    """The content of a file of at most 1 MiB.

    Raises FileNotFoundError if it does not exist, StoreError if it cannot be read or is larger.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise access_error(error, path, "read") from error
    if len(content) > _LARGEST:
        raise StoreError(f"{path} is larger than {_LARGEST} bytes, which no certificate or key is; name the right file")
    return content


def replace_file(path: Path, content: bytes, mode: int, aside: Path | None = None) -> None:
    """Replace a file atomically: readers see the old or the new content, even after a crash.

    There must be only one writer at a time, because all writers use the same temporary file. aside: that file, where
    the folder of the other is watched; on the same file system.

    Raises StoreError if the file cannot be written; the old file is still there then.
    """
    # The name is always the same, so that leftovers of crashes do not accumulate.
    aside = aside or path.with_name(f".{path.name}.new")
    try:
        aside.unlink(missing_ok=True)
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)  # Before the rename: a power cut could leave the new name with no content.
        aside.replace(path)
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise access_error(error, path, "write") from error


def access_error(error: OSError, path: Path, verb: str) -> StoreError:
    """The error for an OSError: what was tried, with which file, as which user, the system's message, the remedy."""
    message = f"cannot {verb} {path} as uid {os.geteuid()}: {error.strerror or error}"
    remedy = _REMEDIES.get(error.errno or 0)
    return StoreError(f"{message}; {remedy}" if remedy else message)


_MODES: Final[Mapping[str, int]] = MappingProxyType(
    {CA_CERT: 0o644, CA_KEY: 0o600, LEAF_CERT: 0o644, LEAF_KEY: 0o600, BUNDLE: 0o644}
)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Lock the directory against all other processes and threads, without a timeout; create it if necessary.

    The kernel releases the lock of a process that dies, so there are no stale locks.

    Raises StoreError if the directory cannot be created or written to.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise access_error(error, directory, "use the directory") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def ensure(directory: Path, names: Iterable[str], now: datetime) -> Ensured:
    """Make the directory hold a CA, a bundle and a leaf for `names` that are valid at `now`; keep those that are.

    Its files are `ca.crt`, `ca.key`, `tls.crt`, `tls.key` and `ca-bundle.crt`. It is created with mode 0700. An
    existing one keeps its mode: it may be a volume that somebody else set up, and the keys are 0600 in any case. Any
    number of processes may call it on one directory: the first makes the pair, the others find it. A reader without the
    lock never sees a partial file, but it may see an old file beside a new one.

    Raises StoreError if a file or the directory cannot be read or written; ForeignFileError, with nothing changed, if a
    file was not made here; InvalidNameError and CertificateError as `Authority.issue` does.
    """
    with locked(directory):
        stored = {}
        for name in _MODES:
            with suppress(FileNotFoundError):
                stored[name] = read_file(directory / name)
        try:
            decided = plan(stored, names, now)
        except ForeignFileError as error:
            raise ForeignFileError(
                f"{directory}: {error}, so it is not overwritten; use an empty directory, or move the file away"
            ) from error
        for name, content in decided.writes.items():
            replace_file(directory / name, content, _MODES[name])
        closed = [reason for name in (CA_KEY, LEAF_KEY) if (reason := close_key(directory / name))]
    return replace(decided, reasons=(*decided.reasons, *closed))


def close_key(path: Path) -> str:
    """Remove the permissions of group and others on a key, and report them; empty if there were none.

    Volumes with an `fsGroup` give the group permissions on every file when they are mounted. Links are not changed.
    """
    try:
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode) or not mode & (stat.S_IRWXG | stat.S_IRWXO):
            return ""
        path.chmod(_MODES[path.name])
    except OSError as error:
        raise access_error(error, path, "take others' rights from") from error
    return f"{path.name} was closed to others: its mode was {stat.S_IMODE(mode):04o}, now {_MODES[path.name]:04o}"
