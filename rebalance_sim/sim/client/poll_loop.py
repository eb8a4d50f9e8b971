"""When an application is inside ``poll``, and when it is away from it.

It calls ``poll`` over and over. One that has records to hand out returns at once, and the
application is away while it processes them. One that has none waits for them, and for whatever
comes to be due, up to ``poll_timeout_ms``; the next one begins at once. No event is made for any of
this: asked for a time, the loop says when the application is there.

Source: client §0.1, classic §4.2.
"""

from __future__ import annotations

from collections.abc import Callable


class PollLoop:
    """The loop of one process, which begins with a ``poll`` at ``now_ms``.

    ``skips``: whether a ``poll`` that finds records in the buffer, and the event of the one before
    complete, submits none itself, but does so the next time (client §0.1).

    ``away_ms`` is how long the application is away after a ``poll`` that has handed out records;
    ``draw_away_ms`` draws that each time instead, 1 at least. ``looks_every_ms``: how often a
    ``poll`` that waits looks for what has come to be due; 0: it notices that at once.

    ``is_waiting``: whether the last ``poll`` waits, for records or for a callback; else it returns
    at once, and the application is away, or about to poll. ``is_held``: see ``look``.
    """

    __slots__ = (
        "_away_ms",
        "_back_ms",
        "_draw_away_ms",
        "_is_called",
        "_is_skipped",
        "_looks_every_ms",
        "_skips",
        "_was_skipped",
        "is_held",
        "is_waiting",
    )

    def __init__(
        self,
        *,
        away_ms: int,
        draw_away_ms: Callable[[], int] | None,
        looks_every_ms: int,
        now_ms: int,
        skips: bool = False,
    ) -> None:
        self._away_ms = away_ms
        self._draw_away_ms = draw_away_ms
        self._looks_every_ms = looks_every_ms
        self._back_ms = now_ms
        """When the last ``poll`` began, or the next one is to begin."""
        self.is_waiting = True
        self.is_held = False
        self._skips = skips
        self._is_skipped = False
        """Whether the ``poll`` at ``_back_ms`` submits no event."""
        self._was_skipped = False
        """The same of the one before it."""
        self._is_called = False

    def in_poll_ms(self, at_ms: int, *, needs_event: bool = False) -> int:
        """The first time from ``at_ms`` on at which the application is inside ``poll``, and looks
        at what is due; with ``needs_event``, in one that submits an event. Where times away are
        drawn, and that lies behind the next ``poll``: a time to ask again."""
        found_ms = self._back_ms
        if at_ms > found_ms:
            if self.is_waiting:
                every_ms = self._looks_every_ms
            elif self._draw_away_ms is None:
                every_ms = self._away_ms
            else:
                every_ms = 0
            found_ms = at_ms + (found_ms - at_ms) % every_ms if every_ms else at_ms
        if needs_event and not self.submits_event(found_ms):
            return found_ms + (self._away_ms if self._draw_away_ms is None else 1)
        return found_ms

    def submits_event(self, at_ms: int) -> bool:
        """Whether a ``poll`` at ``at_ms`` submits an event; with times away that are drawn, as long
        as that is the next one."""
        if not self._skips or self.is_waiting:
            return True
        later = at_ms - self._back_ms
        if later < 0:
            return not self._was_skipped
        is_odd = self._away_ms and self._draw_away_ms is None and later // self._away_ms % 2
        return bool(is_odd) == self._is_skipped

    def call_ms(self, at_ms: int, poll_timeout_ms: int) -> int:
        """When the application can make a call: at once, unless a ``poll`` waits, which has to
        return first."""
        if not self.is_waiting or at_ms <= self._back_ms:
            return at_ms
        return at_ms + (self._back_ms - at_ms) % poll_timeout_ms

    def advance(self, now_ms: int) -> None:
        """Time has come to ``now_ms``: draw how long the application was away, if that is drawn."""
        if self._draw_away_ms is not None and not self.is_waiting:
            while self._back_ms < now_ms:
                self._back_ms += self._draw_away_ms()
                self._is_skipped = self._skips and not self._is_skipped

    def skip(self, now_ms: int) -> None:
        """A ``poll`` runs callbacks, and submits nothing; the next one does."""
        draw = self._draw_away_ms
        self._back_ms = now_ms + (self._away_ms if draw is None else draw())
        self._is_skipped = False

    def begin_poll(self, now_ms: int) -> None:
        """A ``poll`` begins that does more than hand out records; ``look`` follows."""
        self._back_ms = now_ms
        self.is_waiting = True

    def note_call(self, now_ms: int) -> None:
        """The application makes a call between two polls; if the last one had nothing to return,
        the next one follows at once."""
        self._is_called = True
        self._is_skipped = not self.submits_event(self.in_poll_ms(now_ms))
        if self.is_waiting and self._back_ms <= now_ms:
            self._back_ms = now_ms + 1

    def look(self, now_ms: int, *, has_records: bool, is_held: bool) -> None:
        """What is so from now on; to be said when either has changed. ``has_records``: a ``poll``
        hands out records. ``is_held``: a callback or a call keeps the application, which is at
        ``poll`` when that ends."""
        is_released = self.is_held and not is_held
        if is_released:
            # What comes to be due now is seen a millisecond later, unless there are records.
            self.begin_poll(now_ms if has_records else now_ms + 1)
        self.is_held = is_held
        if not has_records:
            if not self.is_waiting:
                self.advance(now_ms)
                self._back_ms = self.in_poll_ms(now_ms)
                self.is_waiting = True
        elif self.is_waiting and not is_held:
            self.is_waiting = False
            self._note_records(now_ms, is_released=is_released)
            if self._back_ms <= now_ms:
                draw = self._draw_away_ms
                self._back_ms = now_ms + (self._away_ms if draw is None else draw())

    def _note_records(self, now_ms: int, *, is_released: bool) -> None:
        """A ``poll`` hands out records: does it submit an event, and the next one?"""
        self._was_skipped = is_released and self._is_called and self._is_skipped
        # While a callback ran the event was worked off, so that the next poll submits another.
        ran_callback = is_released and not self._is_called
        is_over = self._back_ms <= now_ms
        self._is_skipped = self._skips and is_over and not ran_callback and not self._was_skipped
        self._is_called = False
