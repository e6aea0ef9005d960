"""Whatever stands in the file, it is read or refused with one sentence; and no secret is in that."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sendonce.config.catalogue import SETTINGS, TABLES
from sendonce.config.effective import in_force
from sendonce.config.load import load, settings_of
from sendonce.config.sources import Everything
from sendonce.config.types import NAMED
from sendonce.errors import ConfigError

HIDDEN = "hunter2x4111"

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

PLAIN = st.one_of(
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.dates(),
    st.sampled_from(["", "x", "30s", "9w", "999999999d", "true", "\0", "a:b", "127.0.0.1:80", "ada@example.com"]),
    st.sampled_from(
        ["https://a.example/", "https://[", "smtp://a:b", "sqlite:///x", "null:a", "smtp", "never", "resend"]
    ),
    st.text(max_size=8),
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["env", "file", "max_attempts", "timeout", "x"]), inner, max_size=2),
    ),
    max_leaves=4,
)
SECRETS = st.sampled_from(
    [HIDDEN, [HIDDEN], {"x": HIDDEN}, f"smtp://a:{HIDDEN}@b:c", f"postgresql://a:{HIDDEN}@b:c/d", f"{HIDDEN} {HIDDEN}"]
)


def spelled(value: object) -> str:
    """As TOML."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case str():
            return (
                json.dumps(value, ensure_ascii=True) if value.isascii() else f"'{''.join(filter(str.isalnum, value))}'"
            )
        case list():
            return f"[{', '.join(map(spelled, value))}]"
        case dict():
            return "{" + ", ".join(f"{name} = {spelled(each)}" for name, each in value.items()) + "}"
    return str(value)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A settings file with a few keys of any table, each with any value; secrets where secrets belong."""
    lines = []
    for table in draw(st.lists(st.sampled_from([*TABLES, "policy.https", "policy.x y"]), unique=True, max_size=4)):
        known = TABLES[table.partition(".")[0]]
        lines.append(f'["{table}"]' if " " in table else f"[{table}.a]" if table in NAMED else f"[{table}]")
        for key in draw(st.lists(st.sampled_from([*known, "x"]), unique=True, max_size=5)):
            is_secret = key in known and known[key].kind.is_secret
            value = draw(st.one_of(SECRETS, VALUES) if is_secret else VALUES)
            lines.append(f"{key} = {spelled(value)}")
    return "\n".join(lines)


@settings(max_examples=200, deadline=None)
@given(text=texts())
def test_file_is_read_or_refused_in_one_sentence(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sendonce.toml")
        path.write_text(text, "utf-8")
        try:
            everything = Everything(path, {}, {})
            said = repr(settings_of(everything)) + repr(in_force(everything, defaults=True))
        except ConfigError as error:
            said = str(error)
            assert "\n" not in said
            assert said.startswith(("[", str(path), "a send may take"))

    assert HIDDEN not in said


@settings(max_examples=200, deadline=None)
@given(
    environment=st.dictionaries(
        st.sampled_from([each.environment for each in SETTINGS if each.environment] + ["SENDONCE_POLICY"]),
        st.one_of(
            st.text(max_size=9), st.sampled_from(["30s", "7", "0.5", "-1", "--1", "1e999", '{"jitter": []}', "a:1"])
        ),
        max_size=4,
    )
)
def test_environment_is_read_or_refused_in_one_sentence(environment: dict[str, str]) -> None:
    try:
        said = repr(load(None, environment))
    except ConfigError as error:
        said = str(error)

    assert "\n" not in said
