"""The case studies of KIP-848, as data and as a replay against our coordinator.

for played in replay(load_case_study("basic")):
    print(played.step.narrative, played.differences)
"""

from rebalance_sim.scenarios.case_studies.model import (
    CASE_STUDIES,
    DRAFT,
    CaseResponse,
    CaseState,
    CaseStep,
    CaseStudy,
    Current,
    Promotion,
    load_case_study,
)
from rebalance_sim.scenarios.case_studies.replay import CaseStudyReplay, ReplayedStep, replay

__all__ = [
    "CASE_STUDIES",
    "DRAFT",
    "CaseResponse",
    "CaseState",
    "CaseStep",
    "CaseStudy",
    "CaseStudyReplay",
    "Current",
    "Promotion",
    "ReplayedStep",
    "load_case_study",
    "replay",
]
