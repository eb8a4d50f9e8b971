"""Shows the steps of classic groups, and their answers, to the invariants that listen to them."""

from __future__ import annotations

from collections.abc import Sequence

from rebalance_sim.invariants.engine.listeners import Listeners, Questions
from rebalance_sim.invariants.model.classic_model import CLASSIC_REQUESTS, ClassicModel
from rebalance_sim.invariants.model.shadow_model import ShadowModel
from rebalance_sim.invariants.step import ShardView, Step, shard_of
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.wire.classic_messages import JoinGroupRequest, SyncGroupRequest
from rebalance_sim.protocol.wire.topics import TopicPartition


class ClassicWatch:
    """Keeps the shadow model of classic groups for a checker; a group that never was one costs
    nothing."""

    def __init__(self, model: ShadowModel, of_group: Listeners, questions: Questions) -> None:
        self._model = model
        self._on = of_group.of
        self._on_untouched = of_group.on_untouched
        self._on_request = of_group.on_classic_request
        self._ask_about = questions.ask_about
        self._ask_about_all = questions.ask_about_all

    def on_request(self, step: Step, shard: ShardView, group: ClassicGroup | None) -> None:
        """A shard handled a request about the group, classic or not, but no commit; ``group``: what
        it is now."""
        classic_model = self._look(step, shard, group)
        request = step.request
        if type(request) not in CLASSIC_REQUESTS:
            return
        if classic_model is None:
            classic_model = self._model.classic.setdefault(shard.name, ClassicModel())
        if step.response is None and isinstance(request, (JoinGroupRequest, SyncGroupRequest)):
            classic_model.parked[step.operation] = request
        self._ask_about(self._on_request[type(request)], step, classic_model)

    def on_commit(
        self,
        step: Step,
        shard: ShardView,
        group: ClassicGroup | None,
        stored: Sequence[TopicPartition],
    ) -> None:
        """Likewise a commit, and what of it was stored."""
        classic_model = self._look(step, shard, group)
        if group is not None and stored:
            self._ask_about_all(self._on["on_classic_commit"], step, stored, classic_model)

    def on_step(self, step: Step, shard: ShardView) -> ClassicModel | None:
        """A shard did something that may have touched the group."""
        return self._look(step, shard, self._model.classic_group_in(shard))

    def _look(
        self, step: Step, shard: ShardView, group: ClassicGroup | None
    ) -> ClassicModel | None:
        classic_model = self._model.classic.get(shard.name)
        if classic_model is None:
            if group is None:
                return None
            classic_model = self._model.classic[shard.name] = ClassicModel()
        if group is not None or classic_model.group is not None:
            look = classic_model.look(step, shard, group)
            changes = self._on["on_classic"]
            self._ask_about(self._on_untouched if look.is_untouched else changes, step, look)
        return classic_model

    def on_loaded(self, step: Step, shard: ShardView) -> None:
        """A term begins."""
        self._model.classic.pop(shard.name, None)
        classic_model = self.on_step(step, shard)
        if classic_model is not None:
            classic_model.note_loaded(classic_model.group)

    def on_answer(self, step: Step) -> None:
        """An answer to a classic request was let go."""
        classic_model = self._model.classic.get(shard_of(step).name)
        if classic_model is None:
            return
        if classic_model.parked.pop(step.operation, None) is not None:
            # A consumer group answers with the outcome; by the time it is let go, the group may be
            # another one.
            self._ask_about(self._on["on_classic_answer"], step, classic_model)
