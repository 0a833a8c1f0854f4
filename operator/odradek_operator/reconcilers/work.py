"""A resource on its way through the rounds of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.kubernetes import Json
from odradek_operator.reconcilers.decisions import ActualOf, DecisionOf, DesiredOf
from odradek_operator.reconcilers.reconciler import key_of

DesiredT = TypeVar("DesiredT", bound=DesiredOf[Any, Any])
ActualT = TypeVar("ActualT", bound=ActualOf)
DecisionT = TypeVar("DecisionT", bound=DecisionOf[Any, Any])


@dataclass(slots=True)
class Work(Generic[DesiredT, ActualT, DecisionT]):
    """A resource on its way through the rounds; closed once it needs no further round."""

    body: Json
    desired: DesiredT
    actual: ActualT
    decision: DecisionT
    is_open: bool = True

    @property
    def key(self) -> Key:
        return key_of(self.body)


AnyWork = Work[Any, Any, Any]
WorkT = TypeVar("WorkT", bound=AnyWork)
