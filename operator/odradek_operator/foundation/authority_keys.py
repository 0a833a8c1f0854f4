"""The keys of one authority over a change of its key: announced, then used, then the former one retired.

    issuing A                 A is trusted
    issuing A, following B    A and B are trusted, and A signs                                     for the overlap
    issuing B, former A       A and B are trusted, B signs, and all certificates are made again    for the overlap
    issuing B                 B is trusted

An authority whose Secret is lost has no key any more, and its certificate is known from the brokers' own Secret:

    issuing B, former A signs A and B are trusted. B signs, and what A has signed stays in use     for the overlap
    issuing B, former A       as above

B is made here, or brought by the Cluster's owner in a Secret. Each state is kept whole in the authority's own Secret.
So a restart of the operator continues where it was. The time is an argument. An authority that was made here and comes
to its end is renewed with its key, which needs none of this. A brought one is renewed by its owner, and followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from odradek_operator.foundation.certificates import (
    KeyPair,
    facts_of,
    has_same_key,
    is_issued_by,
    make_authority,
    renew_authority,
    split_certificates,
)

# The kubelet brings a changed Secret into pods within two minutes, and Users are looked at every five.
OVERLAP_MIN: Final = timedelta(minutes=15)
# What a lost authority has signed cannot be signed again, so it stays in use almost to its end.
_LOST_RENEWAL: Final = timedelta(days=1)

_CERTIFICATE: Final = "tls.crt"
_KEY: Final = "tls.key"
_FOLLOWING_CERTIFICATE: Final = "following.crt"
_FOLLOWING_KEY: Final = "following.key"
_FORMER: Final = "former.crt"
_OTHERS: Final = "others.crt"
_SINCE: Final = "since"
_ROTATION: Final = "rotation"
_BROUGHT: Final = "brought"
_FORMER_SIGNS: Final = "former-signs"
_YES: Final = "true"


class BroughtAuthority(NamedTuple):
    """An authority of the Cluster's owner. `others` are the certificates above it, in PEM, for clients alone."""

    pair: KeyPair
    others: str = ""


class AuthorityKeys(NamedTuple):
    """`issuing` signs. `since` is when the present step of a change began. `rotation` is the last value of the
    annotation that a change began for. `others` are what is above a brought authority. `is_brought`: the newest key is
    of the Cluster's owner. `former_signs`: the former one's key is lost, and what it has signed stays in use.
    """

    issuing: KeyPair
    following: KeyPair | None = None
    former: str | None = None
    since: datetime | None = None
    rotation: str = ""
    others: str = ""
    is_brought: bool = False
    former_signs: bool = False

    @property
    def admitted(self) -> str:
        """The certificates by which brokers know each other, or clients, as PEM; that of the issuing one is the first.

        What is above a brought authority has signed others, too: it is not among them.
        """
        following = "" if self.following is None else self.following.certificate
        return self.issuing.certificate + following + (self.former or "")

    @property
    def trusted(self) -> str:
        """The certificates for clients to trust, as PEM; that of the issuing one is the first."""
        return self.admitted + self.others

    def cannot_sign_again(self, certificate: str) -> bool:
        """Whether clients may trust the signer of a certificate alone, and its key is lost."""
        return self.former_signs and not is_issued_by(certificate, self.issuing.certificate)

    def has_signed(self, certificate: str, *, now: datetime, renewal: timedelta) -> bool:
        """Whether a certificate is of this authority, and good for longer than `renewal` yet."""
        left = facts_of(certificate).not_after - now
        if is_issued_by(certificate, self.issuing.certificate):
            # None can be good for longer than its authority.
            is_longest = facts_of(certificate).not_after >= facts_of(self.issuing.certificate).not_after
            return left > renewal or (is_longest and left > timedelta())
        signers = split_certificates(self.former or "") if self.former_signs else ()
        return any(is_issued_by(certificate, one) for one in signers) and left > min(renewal, _LOST_RENEWAL)

    def files(self) -> dict[str, str]:
        """The content of the authority's Secret."""
        files = {_CERTIFICATE: self.issuing.certificate, _KEY: self.issuing.key}
        if self.following is not None:
            files |= {_FOLLOWING_CERTIFICATE: self.following.certificate, _FOLLOWING_KEY: self.following.key}
        texts = {
            _FORMER: self.former,
            _OTHERS: self.others,
            _SINCE: None if self.since is None else self.since.isoformat(),
            _ROTATION: self.rotation,
            _BROUGHT: _YES if self.is_brought else None,
            _FORMER_SIGNS: _YES if self.former_signs else None,
        }
        return files | {name: text for name, text in texts.items() if text}


class KeyPolicy(NamedTuple):
    """The lifetime of an authority, the time before its end at which it is renewed, and the length of each step."""

    days: int
    renewal: timedelta
    overlap: timedelta

    @property
    def step(self) -> timedelta:
        """The length of a step."""
        return max(self.overlap, OVERLAP_MIN)


class KeyEvent(NamedTuple):
    """A change of an authority, as an event of Kubernetes says it."""

    reason: str
    message: str
    is_warning: bool = False


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
    return AuthorityKeys(
        issuing,
        _read_pair(files, _FOLLOWING_CERTIFICATE, _FOLLOWING_KEY),
        files.get(_FORMER),
        since,
        files.get(_ROTATION, ""),
        files.get(_OTHERS, ""),
        files.get(_BROUGHT) == _YES,
        files.get(_FORMER_SIGNS) == _YES,
    )


def first_keys(
    policy: KeyPolicy,
    *,
    common_name: str,
    rotation: str,
    now: datetime,
    brought: BroughtAuthority | None = None,
    former: str = "",
) -> tuple[AuthorityKeys, KeyEvent | None]:
    """The keys of an authority whose Secret is not there. `former` is what brokers trust as their authority, in PEM."""
    issuing = make_authority(common_name, days=policy.days, now=now) if brought is None else brought.pair
    keys = AuthorityKeys(
        issuing,
        rotation=rotation,
        others="" if brought is None else brought.others,
        is_brought=brought is not None,
    )
    lost = [
        one
        for one in split_certificates(former)
        if facts_of(one).not_after > now and not has_same_key(one, issuing.certificate)
    ]
    if not lost:
        return keys, None
    ends = now + policy.step
    message = (
        f"was lost with its Secret, and is a new one. The former stays trusted, and what it has signed in use, until "
        f"{ends:%Y-%m-%d %H:%M} UTC: clients outside need the new ca.crt by then"
    )
    keys = keys._replace(former="".join(lost), since=now, former_signs=True)
    return keys, KeyEvent("AuthorityLost", message, is_warning=True)


def step_keys(
    keys: AuthorityKeys,
    policy: KeyPolicy,
    *,
    common_name: str,
    rotation: str,
    now: datetime,
    brought: BroughtAuthority | None = None,
) -> tuple[AuthorityKeys, KeyEvent | None]:
    """The keys after the step that is due now, if any; `rotation` is the value of the annotation."""
    is_over = keys.since is None or now - keys.since >= policy.step
    if brought is not None:
        followed = _follow_renewal(keys, brought)
        if followed.trusted != keys.trusted:
            return followed, KeyEvent("AuthorityRenewed", "is renewed by its owner, with the same key")
        keys = followed
    if keys.following is not None:
        ends_soon = facts_of(keys.issuing.certificate).not_after - now <= OVERLAP_MIN
        if not is_over and not ends_soon:
            return _renew_keys(keys, policy, now)
        used = keys._replace(
            issuing=keys.following, following=None, former=keys.issuing.certificate, since=now
        )
        return used, KeyEvent("AuthorityKeyUsed", "signs with its new key, and the former one is trusted too")
    if keys.former is not None:
        if not is_over:
            return _renew_keys(keys, policy, now)
        if keys.former_signs:
            message = "has signed all certificates again, and the former one is trusted too"
            return keys._replace(former_signs=False, since=now), KeyEvent("AuthorityKeyUsed", message)
        others = "" if brought is None else brought.others
        retired = keys._replace(former=None, since=None, others=others)
        return retired, KeyEvent(
            "AuthorityKeyRetired", "has its new key alone: the former one is not trusted any more"
        )
    following = _find_following(keys, policy, brought, common_name=common_name, rotation=rotation, now=now)
    if following is not None:
        announced = keys._replace(
            following=following,
            since=now,
            rotation=rotation or keys.rotation,
            others=_join(keys.others, "" if brought is None else brought.others),
            is_brought=brought is not None,
        )
        return announced, KeyEvent(
            "AuthorityKeyAnnounced", "has a new key, which is trusted and signs nothing yet"
        )
    return _renew_keys(keys, policy, now)


def _find_following(
    keys: AuthorityKeys,
    policy: KeyPolicy,
    brought: BroughtAuthority | None,
    *,
    common_name: str,
    rotation: str,
    now: datetime,
) -> KeyPair | None:
    """The key that an authority is to have next, if it is to have another one."""
    if brought is not None:
        is_there = has_same_key(keys.issuing.certificate, brought.pair.certificate)
        return None if is_there else brought.pair
    if keys.is_brought or (rotation and rotation != keys.rotation):
        return make_authority(common_name, days=policy.days, now=now)
    return None


def _follow_renewal(keys: AuthorityKeys, brought: BroughtAuthority) -> AuthorityKeys:
    """The keys with the brought certificate, where it is of a key that is there already."""
    following = keys.following
    if following is None and has_same_key(keys.issuing.certificate, brought.pair.certificate):
        others = brought.others if keys.former is None else _join(brought.others, keys.others)
        return keys._replace(issuing=brought.pair, others=others, is_brought=True)
    if following is not None and has_same_key(following.certificate, brought.pair.certificate):
        return keys._replace(following=brought.pair, others=_join(brought.others, keys.others))
    return keys


def _renew_keys(
    keys: AuthorityKeys, policy: KeyPolicy, now: datetime
) -> tuple[AuthorityKeys, KeyEvent | None]:
    if keys.is_brought or facts_of(keys.issuing.certificate).not_after - now > policy.renewal:
        return keys, None
    issuing = renew_authority(keys.issuing, days=policy.days, now=now)
    return keys._replace(issuing=issuing), KeyEvent("AuthorityRenewed", "is renewed, with the same key")


def _join(*texts: str) -> str:
    """Certificates without those that are there twice."""
    return "".join(dict.fromkeys(one for text in texts for one in split_certificates(text)))


def _read_pair(files: Mapping[str, str], certificate: str, key: str) -> KeyPair | None:
    try:
        facts_of(files.get(certificate, ""))
    except ValueError:
        return None
    return KeyPair(files[certificate], files[key]) if files.get(key) else None
