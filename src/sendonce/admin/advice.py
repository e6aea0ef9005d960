"""What a person can do about what is said: a value, which the command line spells and a page makes a button of."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A verb that a person can use: a method of Admin, or `migrate`, `worker` or `consume`.

    `why` leads up to it: "requeue with". `id` says what it is about, which is a `of`: a "dead letter", a "delivery".
    `given` is what else is known, by the names of the verb's parameters; `needs` names what the person has to add.
    """

    verb: str
    why: str
    id: int | str | None = None
    of: str | None = None
    given: Mapping[str, str | bool] = field(default_factory=dict)
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence, and what can be done about what it says."""

    sentence: str
    advice: tuple[Advice, ...] = ()


MIGRATE = Advice(verb="migrate", why="run")
GO_ON_MIGRATING = Advice(verb="migrate", why="go on with")
START_WORKER = Advice(verb="worker", why="start one with")
