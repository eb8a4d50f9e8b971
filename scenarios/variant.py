"""What a scenario is generated for: a profile, and what it is run with instead of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from rebalance_sim.scenarios.errors import ScenarioError

_FORM = re.compile(
    r"(?P<profile>[^@+~]+)(@(?P<semantics>[^@+~]+))?"
    r"(?P<repairs>(~[^@+~]+)*)(\+(?P<protocol>[^@+~]+))?"
)

DEFAULT_PROTOCOLS = ("eager", "cooperative", "consumer-uniform", "consumer-range")
"""Of ``compare.PROTOCOLS``, what is compared unless something else is asked for; the first is what
the others are held against."""


@dataclass(frozen=True, slots=True, order=True)
class Variant:
    """A profile, the version that it simulates and the protocol that its clients speak.

    ``semantics``: a version instead of the profile's own. ``protocol``: for all clients, one of
    ``compare.PROTOCOLS`` instead of what each of them speaks. Empty: nothing is replaced.
    ``repairs``: known issues of the version that it is run without, in ascending order; of a
    profile with several versions, each is run without those that it has. Its text is ``faulty``,
    ``faulty@kafka-4.1``, ``faulty~KAFKA-20601~PR-23542``, ``faulty+eager`` or all of them in this
    order: ``faulty@kafka-4.1~KAFKA-19431+eager``.
    """

    profile: str
    semantics: str = ""
    protocol: str = ""
    repairs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "repairs", tuple(sorted(set(self.repairs))))

    def __str__(self) -> str:
        semantics = f"@{self.semantics}" if self.semantics else ""
        repairs = "".join(f"~{issue}" for issue in self.repairs)
        protocol = f"+{self.protocol}" if self.protocol else ""
        return f"{self.profile}{semantics}{repairs}{protocol}"

    @classmethod
    def of(cls, variant: Variant | str) -> Variant:
        """A variant however it is given: as one, or as its text. Raises ScenarioError."""
        if isinstance(variant, Variant):
            return variant
        match = _FORM.fullmatch(variant)
        if match is None:
            raise ScenarioError(
                f"{variant!r} names no profile: write profile, profile@semantics, profile~repair "
                "or profile+protocol, as in faulty@kafka-4.1+eager"
            )
        fields = match.groupdict(default="")
        repairs = tuple(issue for issue in fields.pop("repairs").split("~") if issue)
        return cls(**fields, repairs=repairs)

    def speaking(self, protocol: str) -> Variant:
        """The same with clients that all speak this protocol."""
        return replace(self, protocol=protocol)
