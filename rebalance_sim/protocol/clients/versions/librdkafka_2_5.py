"""librdkafka 2.3 to 2.6.0 with the classic protocol (client Appendix A.2)."""

from rebalance_sim.protocol.assignors.classic import EndlessAssignmentError
from rebalance_sim.protocol.assignors.classic.classic_assignor import NamedPartition
from rebalance_sim.protocol.assignors.classic.librdkafka_sticky import (
    HeaviestFirst,
    LibrdkafkaCooperativeStickyAssignor,
)
from rebalance_sim.protocol.clients.common.client_kind import GroupProtocol
from rebalance_sim.protocol.clients.common.client_version import ClientVersion
from rebalance_sim.protocol.clients.versions.librdkafka_2_8 import DropsGeneration


class _LosesItsPlace(HeaviestFirst):
    """Issue #4783: the loop over the members, and the one inside it over what a member could have,
    count in the same variable. So the former may come back to a member that it has been at."""

    def is_balanced(self) -> bool:
        """See ``GeneralBalancing``. Raises EndlessAssignmentError."""
        if self.loads.are_even():
            return True
        members = sorted(self.in_play, key=lambda m: (len(self.shares[m]), m))
        place, seen = 0, set[int]()
        while place < len(members):
            if place in seen:
                raise EndlessAssignmentError("the same members are looked at again and again")
            seen.add(place)
            member = members[place]
            share = self.shares[member]
            could_have = self._potential_of(member)
            if len(share) != len(could_have):
                if any(
                    len(self.shares[self.holder[p]]) > len(share)
                    for p in could_have
                    if p not in share
                ):
                    return False
                place = len(could_have)
            place += 1
        return True

    def _potential_of(self, member_id: str) -> list[NamedPartition]:
        topics = self.subscriptions[member_id]
        return [partition for partition in self.partitions if partition.topic in topics]


class LosesItsPlace(LibrdkafkaCooperativeStickyAssignor):
    """``cooperative-sticky`` that may compute for ever."""

    balancing = _LosesItsPlace


VERSION = ClientVersion(
    library="librdkafka",
    name="2.5",
    about="as 2.8, and a leader with cooperative-sticky may compute for ever",
    changes=(DropsGeneration, LosesItsPlace),
    protocol=GroupProtocol.CLASSIC,
)
