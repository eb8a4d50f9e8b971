"""One plug-in of each kind; ``--plugin research_plugins`` finds them here."""

from research_plugins.assignor import RackAssignor as RackAssignor
from research_plugins.classic_assignor import WholeTopicsAssignor as WholeTopicsAssignor
from research_plugins.client import PUNCTUAL as PUNCTUAL
from research_plugins.client_side_assignor import LeaderAssignor as LeaderAssignor
from research_plugins.fault import OperatorError as OperatorError
from research_plugins.grace_period import GRACE_PERIOD as GRACE_PERIOD
from research_plugins.invariant import FewEpochs as FewEpochs
from research_plugins.metric import LargestGroup as LargestGroup
from research_plugins.rule import TOLERANT_FENCE as TOLERANT_FENCE
