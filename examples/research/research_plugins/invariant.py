"""A property of one's own: an invariant about the epoch of a group."""

from rebalance_sim.invariants.property import Finding, Property


class FewEpochs(Property):
    id = "research.few_epochs"
    sentence = "No group epoch rises above 500."

    def on_change(self, step, change):
        _, after = change.group_epoch
        return Finding(f"group epoch {after}") if after > 500 else None
