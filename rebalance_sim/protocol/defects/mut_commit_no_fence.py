"""mut-commit-no-fence: Any epoch of a known member will do."""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect, always, wrong

DEFECT = Defect(
    id="mut-commit-no-fence",
    title="Commits not fenced",
    rules=(wrong(ConsumerGroupRules, accepts_commit=always(True)),),
    properties=("defects S4",),
)
