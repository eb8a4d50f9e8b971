"""What a scenario is generated for: a profile, and what it is run with instead of its own."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.plugin_names import plugin_options
from rebalance_sim.scenarios.profile_file import digest_of, is_file, text_of
from rebalance_sim.scenarios.settings import Setting

_FORM = re.compile(
    r"(?P<profile>.+\.toml|[^@+~]+)(@(?P<semantics>[^@+~]+))?"
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
    profile with several versions, each is run without those that it has. ``settings``: values set
    by path, in ascending path.

    A ``profile`` that ends in ``.toml`` is a file, and ``text`` what it says: the file is read
    once, so a worker needs no file.

    Its text is ``faulty``, ``faulty@kafka-4.1``, ``faulty~KAFKA-20601~PR-23542``, ``faulty+eager``
    or all of them in this order: ``faulty@kafka-4.1~KAFKA-19431+eager``. Settings are not in it.
    """

    profile: str
    semantics: str = ""
    protocol: str = ""
    repairs: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    text: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "repairs", tuple(sorted(set(self.repairs))))
        by_path = {setting.path: setting for setting in self.settings}
        object.__setattr__(self, "settings", tuple(by_path[path] for path in sorted(by_path)))

    def __str__(self) -> str:
        semantics = f"@{self.semantics}" if self.semantics else ""
        repairs = "".join(f"~{issue}" for issue in self.repairs)
        protocol = f"+{self.protocol}" if self.protocol else ""
        return f"{self.profile}{semantics}{repairs}{protocol}"

    @classmethod
    def of(cls, variant: Variant | Path | str) -> Variant:
        """A variant however it is given: as one, or as its text, with the file that it names read.
        Raises ScenarioError."""
        if isinstance(variant, Variant):
            return variant._loaded()
        if isinstance(variant, Path):
            return cls(str(variant))._loaded()
        if not isinstance(variant, str):
            raise ScenarioError(f"{variant!r} names no profile: give its name, or a file")
        match = _FORM.fullmatch(variant)
        if match is None:
            raise ScenarioError(
                f"{variant!r} names no profile: write profile, profile@semantics, profile~repair "
                "or profile+protocol, as in faulty@kafka-4.1+eager"
            )
        named = match.groupdict(default="")
        repairs = tuple(issue for issue in named["repairs"].split("~") if issue)
        return cls(named["profile"], named["semantics"], named["protocol"], repairs)._loaded()

    def _loaded(self) -> Variant:
        if self.text or not is_file(self.profile):
            return self
        return replace(self, text=text_of(self.profile))

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits of the file that it is made from; empty for a built-in
        profile."""
        return digest_of(self.text) if self.text else ""

    @property
    def options(self) -> str:
        """What to type to name it to a command: ``--profile faulty --set max_steps=10``, with the
        plug-ins that are loaded here."""
        return self.options_with(None)

    def options_with(self, plugins: Iterable[str] | None) -> str:
        """The same with these plug-ins."""
        words = ["--profile", str(self)]
        for setting in self.settings:
            words += ["--set", str(setting)]
        words += plugin_options(plugins)
        return shlex.join(words)

    def setting(self, settings: Iterable[Setting]) -> Variant:
        """The same with these values set as well; the last one of a path counts."""
        return replace(self, settings=(*self.settings, *settings))

    def speaking(self, protocol: str) -> Variant:
        """The same with clients that all speak this protocol."""
        return replace(self, protocol=protocol)
