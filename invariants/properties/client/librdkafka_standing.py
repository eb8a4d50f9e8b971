"""What a client of librdkafka shows of itself: to be subscribed, to have been away, or to close.

Source: client §10.1, rows "subscribe", "poll expiry", "unsubscribe" and "close"; client §1.1.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_entry import AnyClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    Call,
    CallbackCompleted,
    CallReturned,
    ClientState,
    OwnStateChanged,
    Poll,
    RaiseError,
    StateChanged,
    Subscribe,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.kinds import LIBRDKAFKA_KINDS

ORDER = 256

_GOES = frozenset(
    {
        *(ClientState.PREPARE_LEAVING, ClientState.LEAVING, ClientState.UNSUBSCRIBED),
        *(ClientState.STALE, ClientState.FATAL),
    }
)
_ENDS = (ClientState.UNSUBSCRIBED, ClientState.FATAL)


class ShowsItsSubscription(Property):
    """client §10.1. A subscription that waits until the leave is over is one."""

    id = "client.subscription.shown_librdkafka"
    sentence = (
        "A client of librdkafka, of either protocol, that has not failed has a subscription once "
        "its application has subscribed, and none once it has unsubscribed."
    )
    clauses = ("client §10.1", "client §6.1")
    violated_by = ("test:librdkafka-denies-its-subscription",)
    client_kinds = LIBRDKAFKA_KINDS
    judges_mixed = True
    interest = Interest(events=(Subscribe, Unsubscribe))

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """The application has said what it wants."""
        member = entry.member
        is_wanted = type(step.event) is Subscribe
        if member.state is ClientState.FATAL or member.is_closed or member.blocked_in is Call.CLOSE:
            return None
        if member.has_subscription is is_wanted:
            return None
        return Finding(
            f"{entry.name} has {'no' if is_wanted else 'a'} subscription, and its application has "
            f"{'' if is_wanted else 'un'}subscribed",
            {"client": entry.name},
        )


class SaysThatItWasAway(Property):
    """client §10.1, row "poll expiry": MAX_POLL_EXCEEDED comes after the callback, if one runs."""

    id = "client.error.away_librdkafka"
    sentence = (
        "An application of librdkafka, of either protocol, that was away from poll for so long "
        "that its client has noticed is raised an error when it polls again and no callback runs."
    )
    clauses = ("client §10.1",)
    violated_by = ("test:librdkafka-is-silent-about-polls",)
    client_kinds = LIBRDKAFKA_KINDS
    judges_mixed = True
    interest = Interest(
        events=(CallbackCompleted,),
        effects=(StateChanged, OwnStateChanged, RaiseError),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._noticed: set[str] = self.of_process(set())
        """Clients that have noticed it, and have not been back since."""
        self._untold: set[str] = self.of_process(set())
        """Those whose application has not been raised anything since."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """A callback has returned: inside of poll?"""
        is_told = any(type(effect) is RaiseError for effect in step.effects)
        return None if is_told else self._judge(entry)

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Has the client noticed, or told?"""
        name = entry.name
        if not entry.member.poll_expired:
            self._noticed.discard(name)
        elif name not in self._noticed:
            self._noticed.add(name)
            self._untold.add(name)
        if any(type(effect) is RaiseError for effect in step.effects):
            self._untold.discard(name)
        return self._judge(entry) if type(step.event) is Poll else None

    def _judge(self, entry: AnyClientEntry) -> Finding | None:
        name, member = entry.name, entry.member
        if (
            name not in self._untold
            or not member.is_polling
            or member.running_callback is not None
            or member.blocked_in is not None
            or member.is_closed
        ):
            return None
        return Finding(
            f"the application of {name} polls again, and is not told that it was away for too long",
            {"client": name},
        )


class GoesWhenClosed(Property):
    """client §10.1, row "close"; client §1.1."""

    id = "client.close.shown_librdkafka"
    sentence = (
        "A client of librdkafka, of either protocol, that is closed is in no state of one that "
        "joins or is a member any more, is not unsubscribed before all is given up, and is when "
        "close returns, unless it has failed."
    )
    clauses = ("client §10.1", "client §1.1")
    violated_by = ("test:librdkafka-shows-no-end",)
    client_kinds = LIBRDKAFKA_KINDS
    judges_mixed = True
    interest = Interest(effects=(StateChanged, CallReturned))

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Where does it go?"""
        member = entry.member
        if member.is_closed:
            if member.state in _ENDS:
                return None
            return Finding(
                f"{entry.name} is closed, and {member.state.value}", {"client": entry.name}
            )
        if member.blocked_in is not Call.CLOSE:
            return None
        what = ""
        if member.state not in _GOES:
            what = "its application has closed it"
        elif member.state is ClientState.UNSUBSCRIBED and member.assigned:
            what = "has not given up all that it has"
        if not what:
            return None
        return Finding(f"{entry.name} is {member.state.value}, and {what}", {"client": entry.name})
