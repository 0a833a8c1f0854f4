"""The keys of one authority over a change of its key: announced, then used, then the former one retired.

    issuing A                 A is trusted
    issuing A, following B    A and B are trusted, and A signs                                     for the overlap
    issuing B, former A       A and B are trusted, B signs, and all certificates are made again    for the overlap
    issuing B                 B is trusted

Each state is kept whole in the authority's Secret, so a restart of the operator continues where it was. The time is an
argument. An authority that comes to its end is renewed with its key, which needs none of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from odradek_operator.foundation.certificates import KeyPair, facts_of, make_authority, renew_authority

# The kubelet brings a changed Secret into pods within two minutes, and Users are looked at every five.
OVERLAP_MIN: Final = timedelta(minutes=15)

_CERTIFICATE: Final = "tls.crt"
_KEY: Final = "tls.key"
_FOLLOWING_CERTIFICATE: Final = "following.crt"
_FOLLOWING_KEY: Final = "following.key"
_FORMER: Final = "former.crt"
_SINCE: Final = "since"
_ROTATION: Final = "rotation"


class AuthorityKeys(NamedTuple):
    """`issuing` signs. `since` is when the present step of a change began. `rotation` is the last value of the
    annotation that a change began for.
    """

    issuing: KeyPair
    following: KeyPair | None = None
    former: str | None = None
    since: datetime | None = None
    rotation: str = ""

    @property
    def trusted(self) -> str:
        """The certificates to trust, as PEM; that of the issuing one is the first."""
        following = "" if self.following is None else self.following.certificate
        return self.issuing.certificate + following + (self.former or "")

    def files(self) -> dict[str, str]:
        """The content of the authority's Secret."""
        files = {_CERTIFICATE: self.issuing.certificate, _KEY: self.issuing.key}
        if self.following is not None:
            files |= {_FOLLOWING_CERTIFICATE: self.following.certificate, _FOLLOWING_KEY: self.following.key}
        if self.former is not None:
            files[_FORMER] = self.former
        if self.since is not None:
            files[_SINCE] = self.since.isoformat()
        if self.rotation:
            files[_ROTATION] = self.rotation
        return files


class KeyPolicy(NamedTuple):
    """The lifetime of an authority, the time before its end at which it is renewed, and the length of each step."""

    days: int
    renewal: timedelta
    overlap: timedelta


class KeyEvent(NamedTuple):
    """A change of an authority, as an event of Kubernetes says it."""

    reason: str
    message: str


def keys_of(data: Mapping[str, bytes]) -> AuthorityKeys | None:
    """The keys in the data of a Secret; None where there is no authority, or one that cannot be read."""
    files = {name: text.decode(errors="replace") for name, text in data.items()}
    issuing = _read_pair(files, _CERTIFICATE, _KEY)
    if issuing is None:
        return None
    try:
        since = datetime.fromisoformat(files[_SINCE]) if _SINCE in files else None
    except ValueError:
        since = None
    following = _read_pair(files, _FOLLOWING_CERTIFICATE, _FOLLOWING_KEY)
    return AuthorityKeys(issuing, following, files.get(_FORMER), since, files.get(_ROTATION, ""))


def step_keys(
    keys: AuthorityKeys, policy: KeyPolicy, *, common_name: str, rotation: str, now: datetime
) -> tuple[AuthorityKeys, KeyEvent | None]:
    """The keys after the step that is due now, if any; `rotation` is the value of the annotation."""
    is_over = keys.since is None or now - keys.since >= max(policy.overlap, OVERLAP_MIN)
    if keys.following is not None:
        if not is_over:
            return _renew_keys(keys, policy, now)
        used = keys._replace(
            issuing=keys.following, following=None, former=keys.issuing.certificate, since=now
        )
        return used, KeyEvent("AuthorityKeyUsed", "signs with its new key, and the former one is trusted too")
    if keys.former is not None:
        if not is_over:
            return _renew_keys(keys, policy, now)
        retired = keys._replace(former=None, since=None)
        return retired, KeyEvent(
            "AuthorityKeyRetired", "has its new key alone: the former one is not trusted any more"
        )
    if rotation and rotation != keys.rotation:
        following = make_authority(common_name, days=policy.days, now=now)
        announced = keys._replace(following=following, since=now, rotation=rotation)
        return announced, KeyEvent(
            "AuthorityKeyAnnounced", "has a new key, which is trusted and signs nothing yet"
        )
    return _renew_keys(keys, policy, now)


def _renew_keys(
    keys: AuthorityKeys, policy: KeyPolicy, now: datetime
) -> tuple[AuthorityKeys, KeyEvent | None]:
    if facts_of(keys.issuing.certificate).not_after - now > policy.renewal:
        return keys, None
    issuing = renew_authority(keys.issuing, days=policy.days, now=now)
    return keys._replace(issuing=issuing), KeyEvent("AuthorityRenewed", "is renewed, with the same key")


def _read_pair(files: Mapping[str, str], certificate: str, key: str) -> KeyPair | None:
    try:
        facts_of(files.get(certificate, ""))
    except ValueError:
        return None
    return KeyPair(files[certificate], files[key]) if files.get(key) else None
