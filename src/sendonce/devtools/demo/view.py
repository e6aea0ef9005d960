"""What is to be seen at one moment: the orders, our deliveries, the naive outbox, and what the receiver says."""

from collections import Counter
from dataclasses import dataclass, field

from sendonce.devtools.demo.observer import Progress
from sendonce.devtools.demo.remote import NOTHING, Counters
from sendonce.devtools.demo.shop import Naive


@dataclass(frozen=True, slots=True)
class Step:
    """Something that has happened, and when."""

    seconds: float
    text: str

    def __str__(self) -> str:
        return f"{self.seconds:5.1f} s  {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """`is_up` is the receiver's, and so are the `tallies`."""

    seconds: float = 0.0
    committed: int = 0
    rolled_back: int = 0
    progress: Progress = field(default_factory=lambda: Progress(states=Counter()))
    naive: Naive = field(default_factory=Naive)
    is_up: bool = False
    tallies: Counters = field(default_factory=lambda: NOTHING)
    story: tuple[Step, ...] = ()

    @property
    def placed(self) -> int:
        return self.committed + self.rolled_back
