"""What a kind of client is, in one value: hosts of members, and checks of what a scenario says of
them, asks it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS, ClassicAssignor
from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.clients.common.member_config import MemberConfig


class GroupProtocol(Enum):
    """``group.protocol`` of a consumer."""

    CONSUMER = "consumer"
    CLASSIC = "classic"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMember:
    """What a host knows of the member of a process that starts.

    ``rules`` are those of the semantics for ``ClientKind.rules``, the class or an object of it;
    None: the kind has none.
    ``jitter`` answers a number in [-1, 1] each time a backoff is drawn.
    """

    config: MemberConfig
    member_id: str
    rules: Any | None
    jitter: Callable[[], float]
    now_ms: int

    def made(self, member: Callable[..., GroupMember], rules: type[Any]) -> GroupMember:
        """The member, with these rules if it has none; of the classic protocol its id comes from
        the coordinator."""
        own = {"member_id": self.member_id} if isinstance(self.config, ConsumerConfig) else {}
        return member(
            config=self.config,
            rules=self.rules or rules,
            jitter=self.jitter,
            now_ms=self.now_ms,
            **own,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientKind:
    """A kind of client.

    ``name`` is what a scenario calls it, ``library`` the client library, ``version`` the release,
    or release line, of it that the machine is (``protocol/clients/versions`` has others).
    ``make`` makes the member of a process. ``rules`` is the class of the decisions in which
    versions and defects differ, None where there are none. ``assignors`` are those that the
    library knows by name, for ``partition.assignment.strategy``, ``default_assignors`` those of a
    client that is not configured; ``mixes_assignors`` says that eager and cooperative ones may
    stand in one list. ``knows_topic_ids`` says that offset requests can name topics by id.
    """

    name: str
    library: str
    version: str
    protocol: GroupProtocol
    config: type[MemberConfig]
    make: Callable[[NewMember], GroupMember]
    rules: type[Any] | None = None
    assignors: Mapping[str, ClassicAssignor] = field(default_factory=lambda: CLASSIC_ASSIGNORS)
    default_assignors: tuple[str, ...] = ("range", "cooperative-sticky")
    mixes_assignors: bool = True
    knows_topic_ids: bool = True

    @property
    def is_classic(self) -> bool:
        """Whether it speaks the classic protocol."""
        return self.protocol is GroupProtocol.CLASSIC
