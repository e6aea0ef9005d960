"""What is known about one setting."""

from dataclasses import KW_ONLY, MISSING, dataclass, fields
from importlib import import_module

from sendonce.config.kinds import Kind

PREFIX = "SENDONCE_"
# Named by whoever writes the file, as in [http.shop]; for these there are no variables.
NAMED = ("http", "apprise")


@dataclass(frozen=True, slots=True)
class Setting:
    """`part` is the dataclass, as module:name, that has the default: in the field of the key, or in `field`.

    `usual` is the default of what belongs to no part; `example`, a value as it is written in the file, for those that
    have no default; `variable`, the name of its variable where it is not SENDONCE_TABLE_KEY.
    """

    key: str
    kind: Kind
    about: str
    _: KW_ONLY
    table: str
    part: str = ""
    field: str = ""
    usual: object = None
    example: str = ""
    is_required: bool = False
    variable: str = ""
    option: str = ""

    @property
    def systematic(self) -> str:
        """The variable that it has by the rule."""
        return f"{PREFIX}{self.table}_{self.key}".upper()

    @property
    def environment(self) -> str:
        """The variable that it has; empty when it has none."""
        return self.variable or ("" if self.table in NAMED else self.systematic)

    @property
    def default(self) -> object:
        """What holds when nobody sets it; None when that is nothing, or when its part is not installed."""
        if not self.part:
            return self.usual
        module, _, name = self.part.partition(":")
        try:
            made_of = getattr(import_module(module), name)
        except ModuleNotFoundError:
            return None
        [found] = [each for each in fields(made_of) if each.name == (self.field or self.key)]
        return None if found.default is MISSING else found.default
