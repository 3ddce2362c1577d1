"""Where the secrets of sources are looked up. The configuration names them and never holds one."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

Lookup = Callable[[str], str | None]
"""The value of a secret by the name of its environment variable, or None."""


def _of_environment(name: str) -> str | None:
    return os.environ.get(name)


def _nowhere_else(name: str) -> str:
    return ""


@dataclass(frozen=True)
class Secrets:
    """``look`` finds a secret by the name of its environment variable. Where it looks further than the environment,
    ``elsewhere`` gives that place for a name, in words that follow "there is no".

    Handed to the sources alone: what is put into the environment instead would be inherited by every process started.
    """

    # Not shown: the repr of a method of a mapping is that of all it holds.
    look: Lookup = field(default=_of_environment, repr=False)
    elsewhere: Callable[[str], str] = field(default=_nowhere_else, repr=False)

    def get(self, name: str) -> str:
        """The secret without blanks around it; "" where there is none."""
        return (self.look(name) or "").strip()

    def missing(self, name: str) -> str:
        """That there is no such secret, with all places where it was looked for."""
        place = self.elsewhere(name)
        return f"the environment variable {name} is not set" + (f", and there is no {place}" if place else "")

    def remedy(self, name: str) -> str:
        """What to do about it."""
        place = self.elsewhere(name)
        return f"export {name}=…" + (f", or save the {place}" if place else "")


ENVIRONMENT = Secrets()
"""What is looked up unless something else is said: the environment alone."""
