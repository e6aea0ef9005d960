"""The report of a run: what was published, what became of it, what was sent twice and why, and how long it took."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Report:
    """`lost`: committed and neither delivered nor held. `doubled`: what a token or a look-up could have prevented, by
    its cause. `repeated`: what nobody could prevent, by its cause. `held`: for a person, because nobody can be asked.
    `replayed` and `decided`: sent again, and given up, by a person. `gone`: recorded between a backup and its restore.
    `strange`: any other disagreement between the application, the database and the receiver.
    """

    title: str
    published: int = 0
    delivered: int = 0
    lost: int = 0
    doubled: Counter[str] = field(default_factory=Counter)
    repeated: Counter[str] = field(default_factory=Counter)
    in_doubt: int = 0
    held: int = 0
    replayed: int = 0
    decided: int = 0
    gone: int = 0
    strange: Counter[str] = field(default_factory=Counter)
    recovery_seconds: float | None = None
    more: dict[str, int | float | str] = field(default_factory=dict)

    def __str__(self) -> str:
        rows: list[tuple[str, object, str]] = [
            ("published", self.published, ""),
            ("delivered", self.delivered, ""),
            ("lost", self.lost, ""),
            ("doubled", self.doubled.total(), _causes(self.doubled)),
            ("repeated", self.repeated.total(), _causes(self.repeated)),
            ("in doubt", self.in_doubt, "attempts whose outcome nobody knew"),
            ("held", self.held, "for a person"),
            ("replayed", self.replayed, "by a person"),
            ("decided", self.decided, "given up by a person"),
            ("gone", self.gone, "between a backup and its restore"),
            ("strange", self.strange.total(), _causes(self.strange)),
        ]
        if self.recovery_seconds is not None:
            rows.append(("recovered", f"{self.recovery_seconds:.1f} s", "after the fault's end"))
        rows += [(name.replace("_", " "), value, "") for name, value in self.more.items()]
        lines = [f"  {name:<22}{_spelled(value):>12}  {note}".rstrip() for name, value, note in rows]
        return "\n".join([self.title, *lines])

    def check(self) -> None:
        """Nothing lost, nothing doubled, nothing strange."""
        assert not self.lost, str(self)
        assert not self.doubled.total(), str(self)
        assert not self.strange.total(), str(self)


def _causes(causes: Counter[str]) -> str:
    return "; ".join(f"{cause} ({amount:,})" for cause, amount in causes.most_common() if amount)


def _spelled(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)
