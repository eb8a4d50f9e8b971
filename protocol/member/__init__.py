"""A member of a consumer group, as the client sees it: a pure machine from events to effects.

- ``member``: ``ConsumerMember``, the machine. Start reading there.
- ``events``, ``effects``: what the host tells the machine, and what the machine wants.
- ``config``: the settings of a consumer.
- ``states``: the states and the one table of legal changes.
- ``rules``, ``defects``: the decisions in which versions and known defects differ.
- ``computing``: a target for the whole group, where the group has client-side assignors.

Source of all rules: consumer-client.md; of the last one, consumer-group-coordinator.md, section 12.
"""

from __future__ import annotations

from protocol.member.computing import ComputingState
from protocol.member.config import ConsumerConfig
from protocol.member.defects import MEMBER_DEFECTS
from protocol.member.effects import (
    AssignmentReceived,
    CallReturned,
    CloseConnection,
    CommitReturned,
    ComputeAssignment,
    ConnectCoordinator,
    Effect,
    FindCoordinator,
    OwnStateChanged,
    RaiseError,
    RequestMetadata,
    ResetPositions,
    RunCallback,
    SendCommit,
    SendHeartbeat,
    SendInstallAssignment,
    SendOffsetFetch,
    SendPrepareAssignment,
    StateChanged,
    ValidatePositions,
)
from protocol.member.events import (
    AssignmentComputed,
    AssignmentInstalled,
    AssignmentPrepared,
    AssignorMetadataChanged,
    CallbackCompleted,
    Close,
    CommitAnswered,
    CommitOffsets,
    CoordinatorConnected,
    CoordinatorConnectionClosed,
    CoordinatorFound,
    CoordinatorSearchFailed,
    Disconnected,
    Event,
    HeartbeatAnswered,
    MetadataKnown,
    OffsetFetchAnswered,
    PatternMatched,
    Poll,
    PollingResumed,
    PollingStopped,
    PositionsKnown,
    RecordsReturned,
    RequestExpired,
    Subscribe,
    Tick,
    Unsubscribe,
)
from protocol.member.interface import GroupMember
from protocol.member.member import ConsumerMember
from protocol.member.rules import LaterMemberRules, MemberRules
from protocol.member.states import LEGAL_TRANSITIONS, ClientState
from protocol.member.values import (
    NO_ASSIGNMENT,
    Call,
    CallbackKind,
    CommitIdentity,
    FetchState,
    LocalAssignment,
    MembershipOperation,
    PartitionState,
)

__all__ = [
    "LEGAL_TRANSITIONS",
    "MEMBER_DEFECTS",
    "NO_ASSIGNMENT",
    "AssignmentComputed",
    "AssignmentInstalled",
    "AssignmentPrepared",
    "AssignmentReceived",
    "AssignorMetadataChanged",
    "Call",
    "CallReturned",
    "CallbackCompleted",
    "CallbackKind",
    "ClientState",
    "Close",
    "CloseConnection",
    "CommitAnswered",
    "CommitIdentity",
    "CommitOffsets",
    "CommitReturned",
    "ComputeAssignment",
    "ComputingState",
    "ConnectCoordinator",
    "ConsumerConfig",
    "ConsumerMember",
    "CoordinatorConnected",
    "CoordinatorConnectionClosed",
    "CoordinatorFound",
    "CoordinatorSearchFailed",
    "Disconnected",
    "Effect",
    "Event",
    "FetchState",
    "FindCoordinator",
    "GroupMember",
    "HeartbeatAnswered",
    "LaterMemberRules",
    "LocalAssignment",
    "MemberRules",
    "MembershipOperation",
    "MetadataKnown",
    "OffsetFetchAnswered",
    "OwnStateChanged",
    "PartitionState",
    "PatternMatched",
    "Poll",
    "PollingResumed",
    "PollingStopped",
    "PositionsKnown",
    "RaiseError",
    "RecordsReturned",
    "RequestExpired",
    "RequestMetadata",
    "ResetPositions",
    "RunCallback",
    "SendCommit",
    "SendHeartbeat",
    "SendInstallAssignment",
    "SendOffsetFetch",
    "SendPrepareAssignment",
    "StateChanged",
    "Subscribe",
    "Tick",
    "Unsubscribe",
    "ValidatePositions",
]
