"""`sendonce consume` as a process: it begins, waits for what is away, ends with grace, and says what is wrong."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from sendonce.cli import main
from tests.consumer.brokers import NatsPlace
from tests.consumer.consuming import APP, consuming, paid, patient_for_a_second, settings
from tests.consumer.working import Bank, new_bank
from tests.processes import sendonce, until
from tests.scrapes import address_of, get, scrape
from tests.servers.binaries import local_binaries, packaged
from tests.servers.nats import Nats
from tests.servers.postgres import Server, start


@pytest_asyncio.fixture(params=["sqlite", "postgres"])
async def bank(request: pytest.FixtureRequest, tmp_path: Path) -> Bank:
    made = new_bank(request.param, tmp_path, request)
    await made.make()
    return made


@pytest_asyncio.fixture
async def sqlite_bank(tmp_path: Path, request: pytest.FixtureRequest) -> Bank:
    made = new_bank("sqlite", tmp_path, request)
    await made.make()
    return made


@pytest_asyncio.fixture
async def stream(nats_url: str) -> NatsPlace:
    place = NatsPlace(nats_url)
    await place.make()
    return place


async def test_consumer_process_handles_what_comes_and_ends_gracefully(
    bank: Bank, stream: NatsPlace, tmp_path: Path
) -> None:
    await stream.put(*[(f"m-{number}", paid()) for number in range(10)], ("m-0", paid()))

    with consuming(bank, settings(tmp_path, stream), "--verbose") as process:
        process.says(r"INFO consumer wallet has begun \(retry\)")
        until(lambda: len(bank.deducted) == 10, "all of them")
        process.says(r"DEBUG consumed consumer=wallet handled=\d+")
        process.send(signal.SIGTERM)
        assert process.ended() == 0

    assert process.count("stopping: 0 in flight, waiting up to 20s") == 1
    assert process.count("consumer wallet has ended$") == 1
    assert bank.deducted == [f"m-{number}" for number in range(10)]


@pytest.mark.parametrize("consumer", ["wallet", "plain"])
async def test_consumer_told_to_stop_finishes_the_handler_that_is_at_work(
    bank: Bank, stream: NatsPlace, tmp_path: Path, consumer: str
) -> None:
    gate = tmp_path / "gate"
    await stream.put(("m-1", paid(wait=str(gate))))

    config = settings(tmp_path, stream, consumer=consumer)
    with consuming(bank, config, "--grace", "10m", name=consumer) as process:
        until((tmp_path / "gate.begun").exists, "the handler to be at work")
        process.send(signal.SIGINT)
        process.says("stopping: 1 in flight, waiting up to 10m")
        gate.touch()
        assert process.ended() == 0

    assert bank.deducted == ["m-1"]
    assert bank.rows("id") == []


@pytest.mark.parametrize("consumer", ["wallet", "plain"])
async def test_consumer_ends_at_once_at_a_second_signal_and_its_message_comes_again(
    bank: Bank, stream: NatsPlace, tmp_path: Path, consumer: str
) -> None:
    gate = tmp_path / "gate"
    await patient_for_a_second(stream, consumer)
    await stream.put(("m-1", paid(wait=str(gate))))

    config = settings(tmp_path, stream, consumer=consumer)
    with consuming(bank, config, "--grace", "10m", name=consumer) as process:
        until((tmp_path / "gate.begun").exists, "the handler to be at work")
        process.send(signal.SIGTERM)
        process.says("stopping: 1 in flight")
        process.send(signal.SIGTERM)
        assert process.ended() == 0
    assert process.count(f"consumer {consumer} has ended; 1 in hand come again") == 1
    assert bank.deducted == []

    gate.touch()
    with consuming(bank, config, name=consumer) as heir:
        until(lambda: bank.deducted, "the message to come again")
        heir.send(signal.SIGTERM)
        assert heir.ended() == 0
    assert bank.deducted == ["m-1"]


async def test_consumer_cuts_short_what_outlasts_the_grace(
    sqlite_bank: Bank, stream: NatsPlace, tmp_path: Path
) -> None:
    await stream.put(("m-1", paid(wait=str(tmp_path / "never"))))

    with consuming(sqlite_bank, settings(tmp_path, stream), "--grace", "100ms") as process:
        until((tmp_path / "never.begun").exists, "the handler to be at work")
        process.send(signal.SIGTERM)
        assert process.ended() == 0

    assert process.count("consumer wallet has ended; 1 in hand come again") == 1
    assert sqlite_bank.deducted == []


@pytest.mark.parametrize(
    ("more", "tries", "reason"), [("", 3, "exhausted"), ('mode = "once"', 1, "failed"), (
        "policy = { max_attempts = 2 }", 2, "exhausted")],
)  # fmt: skip
async def test_mode_and_policy_of_the_settings_override_those_of_the_application(
    sqlite_bank: Bank, stream: NatsPlace, tmp_path: Path, more: str, tries: int, reason: str
) -> None:
    await stream.put(("m-1", paid(fail=True)), ("m-2", paid()))

    with consuming(sqlite_bank, settings(tmp_path, stream, more)) as process:
        process.says("message given up: consumer=wallet message=m-1")
        until(lambda: sqlite_bank.deducted == ["m-2"], "the other message")
        process.send(signal.SIGTERM)
        assert process.ended() == 0

    assert sqlite_bank.rows("status, reason, begun") == [("DeadLettered", reason, tries)]
    assert process.count("the amount is secret") == 0
    assert process.count(r"message (failed|given up): .*code=ValueError") == tries


async def test_consumer_until_idle_ends_when_nothing_is_left(
    sqlite_bank: Bank, stream: NatsPlace, tmp_path: Path
) -> None:
    await stream.put(*[(f"m-{number}", paid()) for number in range(5)])

    with consuming(sqlite_bank, settings(tmp_path, stream), "--until-idle") as process:
        assert process.ended() == 0

    assert len(sqlite_bank.deducted) == 5


async def test_consumer_logs_json(sqlite_bank: Bank, stream: NatsPlace, tmp_path: Path) -> None:
    with consuming(sqlite_bank, settings(tmp_path, stream), "--until-idle", "--log-format", "json") as process:
        assert process.ended() == 0

    facts = [json.loads(line) for line in process.lines]
    begun, *_, ended = [each for each in facts if each["fact"] == "consuming"]
    assert (begun["consumer"], begun["mode"], begun["is_over"], ended["is_over"]) == ("wallet", "retry", False, True)


async def test_consumer_waits_for_a_broker_that_is_away_and_says_so_once(sqlite_bank: Bank, tmp_path: Path) -> None:
    with Nats() as server:
        place = NatsPlace(server.url)
        await place.make()
        server.kill()

        with consuming(sqlite_bank, settings(tmp_path, place)) as process:
            process.says(
                "WARNING consumer wallet: NATS cannot be reached: nobody listens there; waiting and trying again"
            )
            server.start()
            process.says("consumer wallet: its source is back")
            await place.put(("m-1", paid()))
            until(lambda: sqlite_bank.deducted == ["m-1"], "the first message")
            server.kill()
            process.says("consumer wallet: NATS has closed the connection")
            server.start()
            until(lambda: process.count("its source is back") == 2, "the source to be back")
            await place.put(("m-2", paid()))
            until(lambda: sqlite_bank.deducted == ["m-1", "m-2"], "the second message")
            process.send(signal.SIGTERM)
            assert process.ended() == 0

    assert process.count("waiting and trying again") == 2


@pytest.fixture
def own_server() -> Iterator[Server]:
    server = start(local_binaries() or packaged(16))
    yield server
    server.stop()


@pytest.mark.postgres
@pytest.mark.slow
async def test_consumer_waits_for_a_database_that_is_away_and_says_so_once(
    own_server: Server, stream: NatsPlace, tmp_path: Path
) -> None:
    bank = Bank(own_server.dsn(own_server.create_database()))
    await bank.make()
    own_server.halt()

    with consuming(bank, settings(tmp_path, stream)) as process:
        process.says("WARNING consumers: PostgreSQL cannot answer now")
        own_server.resume()
        process.says("consumers: the database is back")
        await stream.put(("m-1", paid()))
        until(lambda: bank.deducted == ["m-1"], "the first message")
        own_server.halt()
        until(lambda: process.count("consumers: .*waiting and trying again") == 2, "the loss to be said")
        await stream.put(("m-2", paid()))
        own_server.resume()
        until(lambda: bank.deducted == ["m-1", "m-2"], "the second message")
        process.send(signal.SIGTERM)
        assert process.ended() == 0

    assert process.count("waiting and trying again") == process.count("consumers: the database is back") == 2


@pytest.mark.postgres
@pytest.mark.slow
async def test_consumer_that_waits_for_its_database_can_be_stopped(
    own_server: Server, stream: NatsPlace, tmp_path: Path
) -> None:
    bank = Bank(own_server.dsn())
    own_server.halt()

    with consuming(bank, settings(tmp_path, stream)) as process:
        process.says("consumers: PostgreSQL cannot answer now")
        process.send(signal.SIGTERM)
        assert process.ended() == 0


async def test_consumer_serves_its_metrics_and_its_health(bank: Bank, tmp_path: Path) -> None:
    with Nats() as server:
        place = NatsPlace(server.url)
        await place.make()
        await place.put(("m-1", paid()), ("m-2", paid(fail=True)))
        config = settings(tmp_path, place, 'mode = "once"')
        with consuming(bank, config, "--metrics", "127.0.0.1:0") as process:
            address = address_of(process)
            process.says("message given up")
            until(lambda: get(f"{address}/readyz").status == 200, "the consumer to be ready")
            until(
                lambda: scrape(address)['sendonce_consumer_messages_total{consumer="wallet",result="handled"}'] == 1,
                "the message to be counted",
            )
            counted = scrape(address)
            alive = get(f"{address}/livez")
            server.kill()
            process.says("NATS has closed the connection")
            away = get(f"{address}/readyz")
            without = scrape(address)
            still_alive = get(f"{address}/livez")

    of_wallet = {re.sub(r'consumer="wallet",?', "", name): value for name, value in counted.items() if "wallet" in name}
    assert of_wallet == {
        'sendonce_consumer_info{mode="once",version="0.1.0.dev0"}': 1,
        "sendonce_consumer_in_hand{}": 0,
        'sendonce_consumer_messages_total{result="handled"}': 1,
        'sendonce_consumer_messages_total{result="duplicate"}': 0,
        'sendonce_consumer_messages_total{result="failed"}': 0,
        'sendonce_consumer_messages_total{result="dead"}': 1,
        "sendonce_consumer_source_up{}": 1,
        "sendonce_consumer_source_lost_total{}": 0,
    }
    assert counted["sendonce_database_answers"] == 1
    assert counted['sendonce_database_lost_total{part="consumers"}'] == 0
    assert (alive.status, alive.text) == (200, "the consumer goes round\n")
    assert (away.status, away.text[:40]) == (503, "consumer wallet: NATS has closed the con")
    assert without['sendonce_consumer_source_up{consumer="wallet"}'] == 0
    assert still_alive.status == 200


async def test_consumer_works_on_no_copy_of_its_database(sqlite_bank: Bank, stream: NatsPlace, tmp_path: Path) -> None:
    await stream.put(("m-1", paid()))
    sqlite_bank.ask("insert into sendonce_meta (name, value) values ('instance', 'production')")

    with consuming(sqlite_bank, settings(tmp_path, stream)) as other:
        assert other.ended() == 1
    with consuming(sqlite_bank, settings(tmp_path, stream), "--instance", "production", "--until-idle") as process:
        assert process.ended() == 0

    assert other.count("this database is 'production' and the settings say none") == 1
    assert sqlite_bank.deducted == ["m-1"]


@pytest.mark.parametrize(
    ("written", "options", "said"),
    [
        ("", ("--app", "nowhere:consumers"), "the app nowhere:consumers cannot be used: No module named 'nowhere'"),
        ("", ("--app", "broken:consumers"), "the app broken:consumers cannot be used: KeyError in broken.py, line 1"),
        ("", ("--app", "unfinished:consumers"), "cannot be used: '(' was never closed (unfinished.py, line 1)"),
        ("", ("--app", "tests.consumer.handlers:none"), "handlers has no sendonce.consumer.Consumers named none"),
        ("", ("--app", "empty:consumers"), "there are no consumers; add one with @consumers.consumer(name, source)"),
        ("", ("walet",), "there is no consumer walet; do you mean wallet?"),
        ("[consumers.walet]", (), "the application has no consumer walet; do you mean wallet?"),
        ("[consumer.wallet]", (), "there is no table [consumer]; do you mean consumers?"),
        ("[consumers.wallet]\nmod = 1", (), "there is no key 'mod' in [consumers.wallet]; do you mean mode?"),
        ("[consumers.wallet]\nmode = 'twice'", (), "[consumers.wallet] mode must be one of retry, once, not 'twice'"),
        ("[consumers.wallet]\nprefetch = 0", (), "[consumers.wallet] prefetch must be from 1 to 10000, not 0"),
        ("[consumers.wallet]\nsource = 'x'", (), "[consumers.wallet] source must be like nats:PROFILE/STREAM"),
        ("[consumers.wallet]\npolicy = {max = 1}", (), "[consumers.wallet] policy cannot be used: unknown policy"),
        ("[consumers.wallet]\nsource = 'nats:mian/x'", (), "no table [nats.mian]; do you mean [nats.main]?"),
        ("[consume]\ngrace = '2d'", (), "[consume] grace must be between zero and one hour"),
        ("", ("--metrics", "9464"), "--metrics must be a host and a port, like 127.0.0.1:9464, not '9464'"),
    ],
)  # fmt: skip
def test_consumer_that_cannot_begin_says_why_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    written: str, options: tuple[str, ...], said: str,
) -> None:  # fmt: skip
    (tmp_path / "broken.py").write_text("{}['secret']\n")
    (tmp_path / "unfinished.py").write_text("print(\n")
    (tmp_path / "empty.py").write_text("from sendonce.consumer import Consumers\nconsumers = Consumers()\n")
    config = tmp_path / "consume.toml"
    config.write_text(f'[nats.main]\nurl = "nats://127.0.0.1:1"\n{written}\n')
    app = () if "--app" in options else ("--app", APP)

    monkeypatch.syspath_prepend(tmp_path)

    code = main(["consume", *options, *app, "--config", str(config), "--database", f"sqlite:///{tmp_path}/none.db"])

    assert code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("sendonce: ")
    assert said in line


async def test_consumer_without_an_app_or_a_database_says_so(tmp_path: Path) -> None:
    with sendonce("consume", database=f"sqlite:///{tmp_path}/none.db") as without_app:
        assert without_app.ended() == 2
    config = tmp_path / "consume.toml"
    config.write_text('[nats.main]\nurl = "nats://127.0.0.1:1"\n')
    options = ("--app", APP, "--config", str(config))
    with sendonce("consume", *options, database=f"sqlite:///{tmp_path}/none.db") as without_database:
        assert without_database.ended() == 1

    assert without_app.lines == ["sendonce: say whose consumers: --app MODULE:NAME, or app in [consume]\n"]
    assert "there is no sendonce database at" in without_database.said
    assert len(without_database.lines) == 1
