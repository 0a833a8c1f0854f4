"""All ACLs of a cluster, arranged so that a decision costs a few look-ups, also among 100,000.

Each resource type has its patterns by name: literal ones, and prefixed ones with the lengths that occur. So a name
needs one look-up for itself, one for `*`, and one for each length of prefixes. A pattern has its rules by principal.
A rule is a set of allowed and a set of denied operations as bits. Rules for single hosts are listed apart, and so are
those for ranges of addresses (KIP-1276).

An index is never changed. `changed` copies what differs, so that readers of the old one are not disturbed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final

from odradek.foundation.named_tuple import NamedTuple
from odradek.security.authorization.acls import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    Network,
    PatternType,
    PermissionType,
    ResourcePattern,
    address_of,
    comparable_host,
    network_of,
)
from odradek.security.authorization.filters import AclFilter


class Decision(IntEnum):
    """The answer of the ACLs to one question. NO_ACL: no ACL is about the resource, for any principal."""

    DENIED = 0
    ALLOWED = 1
    NO_ACL = 2


class Rules(NamedTuple):
    """The rules of one pattern for one principal. `by_host` are those for single hosts: host, allowed, denied.

    `by_network` are those for ranges of addresses.
    """

    allowed: int
    denied: int
    by_host: tuple[tuple[str, int, int], ...]
    by_network: tuple[tuple[Network, int, int], ...] = ()

    def of(self, host: str) -> tuple[int, int]:
        """The operations that are allowed and denied from this host."""
        allowed, denied, by_host, by_network = self
        for of_host, of_allowed, of_denied in by_host:
            if of_host == host:
                allowed |= of_allowed
                denied |= of_denied
        address = address_of(host) if by_network else None
        if address is not None:
            for network, of_allowed, of_denied in by_network:
                if address in network:
                    allowed |= of_allowed
                    denied |= of_denied
        return allowed, denied


class _Type:
    """The patterns of one resource type. Only `_copy` and `AclIndex.with_changes` write to it."""

    __slots__ = ("by_principal", "literal", "prefix_lengths", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, dict[str, Rules]] = {}
        self.prefixed: dict[str, dict[str, Rules]] = {}
        self.prefix_lengths: tuple[int, ...] = ()
        """The distinct lengths of the prefixes, shortest first."""
        self.by_principal: dict[str, dict[tuple[PatternType, str], Rules]] = {}
        """The same rules, for questions about a type without a name."""


_NOTHING: Final = _Type()
_NO_RULES: Final[Mapping[tuple[PatternType, str], Rules]] = {}


def _bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


# By operation: the operations of a DENY that deny it, and those of an ALLOW that allow it.
DENY_MASKS: Final = tuple(_bits(AclOperation.ALL) | 1 << operation for operation in AclOperation)
_IMPLYING: Final = {
    AclOperation.DESCRIBE: _bits(
        AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER
    ),
    AclOperation.DESCRIBE_CONFIGS: _bits(AclOperation.ALTER_CONFIGS),
}
ALLOW_MASKS: Final = tuple(DENY_MASKS[operation] | _IMPLYING.get(operation, 0) for operation in AclOperation)


class AclIndex:
    """All ACLs at one moment. An empty one is `AclIndex()`."""

    __slots__ = ("_patterns", "_types")

    def __init__(self) -> None:
        self._types: dict[int, _Type] = {}
        self._patterns: dict[ResourcePattern, tuple[AccessControlEntry, ...]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._patterns.values()))

    def __iter__(self) -> Iterator[AclBinding]:
        for pattern, entries in self._patterns.items():
            for entry in entries:
                yield AclBinding(pattern, entry)

    def entries(self, pattern: ResourcePattern) -> tuple[AccessControlEntry, ...]:
        return self._patterns.get(pattern, ())

    def matching(self, wanted: AclFilter) -> Iterator[AclBinding]:
        for pattern in self.patterns_for(wanted):
            yield from self.matching_at(pattern, wanted)

    def patterns_for(self, wanted: AclFilter) -> Iterable[ResourcePattern]:
        """The patterns whose ACLs have to be compared with a filter."""
        only = wanted.pattern
        if only is None:
            return self._patterns
        return (only,) if only in self._patterns else ()

    def matching_at(self, pattern: ResourcePattern, wanted: AclFilter) -> list[AclBinding]:
        if not wanted.matches_pattern(pattern):
            return []
        return [
            AclBinding(pattern, entry) for entry in self._patterns[pattern] if wanted.matches_entry(entry)
        ]

    # --- changes -------------------------------------------------------------------------------------------------

    def with_changes(self, changes: Mapping[ResourcePattern, Sequence[AccessControlEntry]]) -> AclIndex:
        """The index in which these patterns have these ACLs and no others."""
        after = AclIndex()
        after._patterns = dict(self._patterns)
        after._types = dict(self._types)
        copied: set[int] = set()
        inner: set[tuple[int, str]] = set()
        for pattern, entries in changes.items():
            if pattern.type not in copied:
                after._types[pattern.type] = _copy(self._types.get(pattern.type, _NOTHING))
                copied.add(pattern.type)
            unique = tuple(dict.fromkeys(entries))
            if unique:
                after._patterns[pattern] = unique
            else:
                after._patterns.pop(pattern, None)
            _put(after._types[pattern.type], pattern, unique, inner)
        for number in copied:
            lengths = {len(name) for name in after._types[number].prefixed}
            after._types[number].prefix_lengths = tuple(sorted(lengths))
        return after

    # --- decisions -----------------------------------------------------------------------------------------------

    def decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Decision:
        """The decision of the ACLs. `host` is as `comparable_host` spells it; super users are the caller's."""
        of_type = self._types.get(resource_type)
        if of_type is None:
            return Decision.NO_ACL
        deny_mask, allow_mask = DENY_MASKS[operation], ALLOW_MASKS[operation]
        decision = Decision.NO_ACL
        for by_principal in _about(of_type, name):
            if decision is Decision.NO_ACL:
                decision = Decision.DENIED
            for whom in (principal, WILDCARD_PRINCIPAL):
                rules = by_principal.get(whom)
                if rules is None:
                    continue
                allowed, denied = rules.of(host) if rules[2] or rules[3] else rules[:2]
                if denied & deny_mask:
                    return Decision.DENIED
                if allowed & allow_mask:
                    decision = Decision.ALLOWED
        return decision

    def allows_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether the operation is allowed on at least one name of the type, as Kafka decides it (KIP-679).

        An ALLOW counts unless a DENY on the same literal, on a prefix of it, or on `*` covers it. Nothing is implied:
        only an operation of this very number, or ALL, counts.
        """
        mask = DENY_MASKS[operation]
        of_type = self._types.get(resource_type, _NOTHING)
        allowed: list[tuple[PatternType, str]] = []
        denied: set[tuple[PatternType, str]] = set()
        for whom in dict.fromkeys((principal, WILDCARD_PRINCIPAL)):
            for key, rules in of_type.by_principal.get(whom, _NO_RULES).items():
                allowed_bits, denied_bits = rules.of(host)
                if allowed_bits & mask:
                    allowed.append(key)
                if denied_bits & mask:
                    denied.add(key)
        everything = (PatternType.LITERAL, WILDCARD)
        if everything in denied:
            return False
        return any(key == everything or not _is_covered(key, denied) for key in allowed)


def _about(of_type: _Type, name: str) -> Iterator[dict[str, Rules]]:
    """The rules of each pattern that is about the resource `name`."""
    literal = of_type.literal
    found = literal.get(name)
    if found is not None:
        yield found
    if name != WILDCARD:
        found = literal.get(WILDCARD)
        if found is not None:
            yield found
    size = len(name)
    for length in of_type.prefix_lengths:
        if length > size:
            return
        found = of_type.prefixed.get(name[:length])
        if found is not None:
            yield found


def _is_covered(key: tuple[PatternType, str], denied: set[tuple[PatternType, str]]) -> bool:
    pattern_type, name = key
    if pattern_type is PatternType.LITERAL and key in denied:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))


def _copy(before: _Type) -> _Type:
    after = _Type()
    after.literal = dict(before.literal)
    after.prefixed = dict(before.prefixed)
    after.by_principal = dict(before.by_principal)
    return after


def _put(
    of_type: _Type,
    pattern: ResourcePattern,
    entries: Sequence[AccessControlEntry],
    inner: set[tuple[int, str]],
) -> None:
    """Give a pattern these entries. `inner` are the principals' mappings that were copied before."""
    by_name = of_type.literal if pattern.pattern_type is PatternType.LITERAL else of_type.prefixed
    before = by_name.pop(pattern.name, {})
    after = _rules(entries)
    if after:
        by_name[pattern.name] = after
    key = pattern.pattern_type, pattern.name
    for principal in before.keys() | after.keys():
        if (pattern.type, principal) not in inner:
            of_type.by_principal[principal] = dict(of_type.by_principal.get(principal, {}))
            inner.add((pattern.type, principal))
        of_principal = of_type.by_principal[principal]
        if principal in after:
            of_principal[key] = after[principal]
        else:
            del of_principal[key]
            if not of_principal:
                del of_type.by_principal[principal]
                inner.discard((pattern.type, principal))


def _rules(entries: Iterable[AccessControlEntry]) -> dict[str, Rules]:
    bits: dict[str, dict[str, list[int]]] = {}
    for principal, host, operation, permission in entries:
        allowed_denied = bits.setdefault(principal, {}).setdefault(comparable_host(host), [0, 0])
        allowed_denied[permission is PermissionType.DENY] |= 1 << operation
    rules: dict[str, Rules] = {}
    for principal, by_host in bits.items():
        allowed, denied = by_host.pop(WILDCARD, (0, 0))
        single: list[tuple[str, int, int]] = []
        ranges: list[tuple[Network, int, int]] = []
        for host, both in by_host.items():
            network = network_of(host)
            if network is None:
                single.append((host, both[0], both[1]))
            else:
                ranges.append((network, both[0], both[1]))
        rules[principal] = Rules(allowed, denied, tuple(single), tuple(ranges))
    return rules
