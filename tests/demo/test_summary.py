"""The end of the demonstration as text."""

from sendonce.devtools.demo.accounts import Counts
from sendonce.devtools.demo.run import directions, sentences, table
from tests.demo.values import accounts, marked, unpainted

PROGRAM, DATABASE = ".venv/bin/sendonce", "sqlite:///sendonce-demo.db"


def _numbers(lines: list[str]) -> dict[str, list[str]]:
    return {line[:48].strip(): line[48:].split() for line in lines[1:]}


def test_table_has_both_columns_and_they_add_up() -> None:
    rows = _numbers(table(accounts(), unpainted))

    assert rows["orders rolled back"] == ["5", "5"]
    assert rows["orders committed"] == ["55", "55"]
    assert rows["acted upon once"] == ["53", "35"]
    assert rows["acted upon twice or more"] == ["0", "8"]
    assert rows["refused by the receiver"] == ["2", "2"]
    assert rows["never arrived"] == ["0", "10"]
    assert rows["requests in flight at the SIGKILL"] == ["12", "12"]
    assert rows["of which had arrived"] == ["5", "5"]
    assert rows["asked about before a repeat"] == ["5", "–"]
    assert rows["found there, and not sent again"] == ["3", "–"]
    assert rows["not there, and sent after asking"] == ["2", "–"]


def test_summary_shows_in_red_only_what_is_bad() -> None:
    lines = table(accounts(), marked)

    assert [line.split("<")[0].strip() for line in lines if "<red>" in line] == [
        "acted upon twice or more",
        "never arrived",
    ]


def test_sentence_accounts_for_every_order() -> None:
    told = sentences(accounts(), "naive.py", unpainted)

    assert told[0] == "60 orders = 5 rolled back + 53 delivered + 2 dead letters; 0 lost, 0 doubled"
    assert told[1] == "dead letters: order 50 (refused, http_422), order 57 (refused, http_422)"
    assert told[2] == "the naive outbox gave up 10 that nobody had refused, and doubled 8"
    assert told[3:] == ["(killed, or the answer lost, between send and mark):", "  naive.py"]


def test_commands_lead_to_an_order_in_doubt_and_a_refused_one() -> None:
    lines = directions(accounts(), PROGRAM, DATABASE)

    assert lines[0] == "21 s. The database is kept; look at order 21 (in doubt) and order 50 (refused):"
    assert lines[1:3] == [f"  {PROGRAM} --database {DATABASE} explain {id}" for id in (121, 150)]
    assert [line.split(DATABASE)[1].strip() for line in lines[3:]] == ["dead-letters list", "deliveries list", "status"]


def test_run_in_which_nothing_happened_still_has_commands() -> None:
    empty = accounts(ours=Counts(), fates=())

    assert len(directions(empty, PROGRAM, DATABASE)) == 4


def test_summary_fits_a_narrow_terminal() -> None:
    told = accounts()
    lines = [
        *table(told, unpainted),
        *sentences(told, "src/sendonce/devtools/demo/naive.py", unpainted),
        *directions(told, PROGRAM, DATABASE),
    ]

    assert max(len(line) for line in lines) <= 80
