"""The CA in a Secret, and a process's own leaf of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

import structlog

from certs.authority import Authority, Leaf
from certs.errors import ForeignFileError
from certs.material import Bundle, titled
from certs.plan import BUNDLE, AuthorityPlan, plan_authority, plan_leaf, usable_authority
from webhook.cluster.api.errors import ClusterError

if TYPE_CHECKING:
    from webhook.cluster.watches.secrets import SecretStore


class Leader(Protocol):
    """Tells which replica writes."""

    @property
    def leading(self) -> bool:
        """Whether this process is the leader."""

    @property
    def holder(self) -> str:
        """The name of the leader; empty if there is none."""


class _Rewrite(NamedTuple):
    """Contents to write into the Secret, and the reasons, one sentence each, for the log."""

    contents: Mapping[str, bytes]
    reasons: Sequence[str]


class StoredAuthority:
    """The current CA and bundle.

    The leader makes and renews the CA in the Secret, and overwrites anything else there, because the Secret's name is
    reserved. Even the leader uses a new CA only after it is stored, so that of two leaders one wins. The bundle
    remembers earlier CAs, so that a lost Secret breaks nobody's trust.
    """

    def __init__(self, secret: SecretStore, leader: Leader) -> None:
        self.authority: Authority | None = None
        self.bundle = Bundle()
        self._secret = secret
        self._leader = leader
        self._rewrite: _Rewrite | None = None
        self._lacking = ""  # why the stored CA cannot be used
        self._problem = ""  # why it could not be stored
        self._log = structlog.get_logger()

    def look(self, now: datetime) -> None:
        """Decide about the contents of the Secret."""
        if not self._secret.unsynced():
            self._decide(now)

    async def retire(self, now: datetime) -> None:
        """Store a bundle with the current CA alone: nobody serves what earlier ones signed. Failures are logged."""
        if self.authority is None or self._rewrite is not None:
            return
        bundle = Bundle((self.authority.certificate,))
        dropped = ", ".join(titled(earlier.subject) for earlier in self.bundle if earlier not in bundle)
        reason = f"{BUNDLE} no longer holds {dropped}, since all replicas serve what the current CA signed"
        self._rewrite = _Rewrite({BUNDLE: bundle.pem}, [reason])
        await self.save(now)

    async def save(self, now: datetime) -> None:
        """If this process is the leader, store what the last look found missing, and use it. Failures are logged."""
        rewrite, self._rewrite = self._rewrite, None
        if rewrite is None:
            return
        try:
            await self._secret.write(rewrite.contents)
        except ClusterError as error:
            self._failed(error)
            return
        self._problem = ""
        for reason in rewrite.reasons:
            self._log.info("certificate", reason=reason)
        self.look(now)

    def lacking(self) -> str:
        """Why there is no CA to issue a new leaf; empty if there is one."""
        if unsynced := self._secret.unsynced():
            return "; ".join(unsynced)
        if not self._lacking or self._leader.leading:
            return self._problem
        who = f"{self._leader.holder}, which holds the lease," if self._leader.holder else "whoever gets the lease"
        return f"{self._lacking}; {who} renews it"

    def _decide(self, now: datetime) -> None:
        stored, title = self._secret.stored, self._secret.title
        reasons: list[str] = []
        try:
            plan = plan_authority(stored, now, remembered=self.bundle)
            problem = f"the CA in {title} cannot be used: {plan.problem}" if plan.problem else ""
        except ForeignFileError as error:
            plan = plan_authority({}, now, remembered=self.bundle)
            problem = f"{title} is not what its name is reserved for: {error}"
            reasons.append(f"{problem}, and is overwritten")
        if not self._secret.exists and self.bundle.certificates:
            reasons.append(f"{title} is gone, and is made anew; the CAs that it held are trusted until they expire")
        usable = usable_authority(stored, now) if plan.problem else plan.authority
        self._use(plan, usable)
        self._lacking = "" if usable else problem if self._secret.exists else f"{title} does not exist"
        writing = plan.writes and self._leader.leading
        self._rewrite = _Rewrite(plan.writes, (*reasons, *plan.reasons)) if writing else None

    def _use(self, plan: AuthorityPlan, usable: Authority | None) -> None:
        """Use what is usable before the plan is executed."""
        if plan.problem:  # the plan's CA is new, and another process may also make one
            self.bundle = Bundle(
                tuple(certificate for certificate in plan.bundle if certificate != plan.authority.certificate)
            )
            self.authority = usable or self.authority
        else:
            self.bundle = plan.bundle
            self.authority = plan.authority

    def _failed(self, error: ClusterError) -> None:
        if error.status == 409:
            self._log.info("certificate", reason=f"{error}; somebody else was faster, and it is looked at again")
            return
        if str(error) != self._problem:  # log it once: it is tried again every few seconds
            self._log.error("certificate not renewed", reason=str(error))
        self._problem = str(error)


class SharedAuthority(StoredAuthority):
    """The CA that all replicas share, and this process's own leaf; see `webhook.tls.certificates.Own`.

    Each process makes its own leaf, whose key never leaves memory. A process that is not the leader keeps using the
    last good CA as long as clients accept it.
    """

    def __init__(self, secret: SecretStore, leader: Leader, names: Sequence[str]) -> None:
        super().__init__(secret, leader)
        self.leaf: Leaf | None = None
        self._names = names

    def look(self, now: datetime) -> None:
        """Decide about the contents of the Secret and about the leaf.

        Raises InvalidNameError if one of the names is invalid.
        """
        super().look(now)
        if self.authority is not None and self.authority.signs_at(now):
            self.leaf, reason = plan_leaf(self.leaf, self.authority, self._names, now)
            if reason:
                self._log.info("certificate", reason=reason)
