import pytest

from sendonce.cli.output import display_width, wrapped
from sendonce.cli.tables import GAP, Cell, Table, cut, cut_middle, fit


def plainly(text: str, colour: str) -> str:
    return text


def rows(*texts: list[str]) -> list[list[Cell]]:
    return [[Cell(text) for text in row] for row in texts]


def test_columns_are_aligned() -> None:
    lines = Table(["ID", "KEY"], rows(["1", "a"], ["1000", "b"])).lines(0, plainly)

    assert lines == ["ID    KEY", "1     a", "1000  b"]


def test_table_is_never_wider_than_the_terminal_and_the_widest_column_gives() -> None:
    lines = Table(["ID", "KEY", "DESTINATION"], rows(["1", "k" * 30, "d" * 200])).lines(60, plainly)

    assert max(map(len, lines)) == 60
    assert lines[1].startswith("1   " + "k" * 26)
    assert lines[1].endswith("d…")


def test_table_without_a_terminal_is_not_cut() -> None:
    assert Table(["KEY"], rows(["k" * 500])).lines(0, plainly)[1] == "k" * 500


def test_columns_keep_a_least_width() -> None:
    assert fit([50, 50, 50], 10) == [8, 8, 8]


@pytest.mark.parametrize(("text", "width"), [("日本語", 6), ("ascii", 5), ("e\N{COMBINING ACUTE ACCENT}", 1)])
def test_table_measures_wide_and_combining_characters_as_they_show(text: str, width: int) -> None:
    assert display_width(text) == width


def test_cut_text_fits_even_with_wide_characters() -> None:
    assert cut("日本語日本語", 6) == "日本…"
    assert display_width(cut("日本語日本語", 6)) <= 6


def test_table_takes_out_what_could_steer_a_terminal() -> None:
    line = Table(["KEY", "X"], rows(["\x1b[31mred\nnext\x07\x9b", "x"])).lines(0, plainly)[1]

    assert line == f"[31mred next{GAP}x"


def test_colours_do_not_disturb_the_alignment() -> None:
    table = [[Cell("ok", "green"), Cell("x")], [Cell("long text"), Cell("y")]]

    lines = Table(["A", "B"], table).lines(0, lambda text, colour: f"<{text}>")

    assert lines == ["<A>          <B>", "<ok>         x", "long text  y"]


def test_address_is_cut_in_its_middle() -> None:
    assert cut_middle("https://hooks.example/orders", 15) == "https:/…/orders"
    assert cut_middle("日本語日本語日本語", 9) == "日本…本語"
    assert cut_middle("null:a", 15) == "null:a"


def test_sentence_wraps_between_words_and_keeps_its_indent() -> None:
    lines = wrapped("  → the last attempt did not succeed, https://hooks.example/very/long/address", 30)

    assert lines == [
        "  → the last attempt did not",
        "      succeed,",
        "      https://hooks.example/very/long/address",
    ]


def test_sentence_is_not_wrapped_without_a_width() -> None:
    assert wrapped("word " * 100, 0) == ["word " * 100]
