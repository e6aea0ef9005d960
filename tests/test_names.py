"""Names of tests begin with their subject: a noun of the domain, and then what is true of it."""

import re

from tests.processes import ROOT

NUMBER = re.compile(r"[RMWPD]\d+_")
TEST = re.compile(r"^ *(?:async )?def test_(\w+)", re.MULTILINE)
# What a subject does not begin with: it would say only later, or never, what the test is about.
_FORBIDDEN = """
         a all an and another any anything as at before behind below between both by each every everything
    exactly fifty from how     however hundreds in is it its many more neither never no nobody none nor not
    nothing of on one only other others our     several since so some something ten that the their there these
    they this those three to too two under until what whatever     when where which while who whoever whom with
    within without
"""
# The subject: one of these is the first word, or the second or third where others say which one is meant.
_NOUNS = """
    accounts action admin address addresses advice age alarm alert alerts announcement answer answers api app
    application apprise archive argument arguments asyncpg attachment attachments attacks attempt attempts attest
    attestation audit backfill backfills backlog backoff balance batch batches bearer beginning behaviour
    benchmark body boxes breaker breakers broker brokers burst bytes cache call caller callers calls cancel
    cancellation catalogue certificate certificates change channel channels chaos check claim claims class
    classifiers client clock cloud cluster code codecs colours column columns command commands commit commits
    condition config connect connection connections consumer consumers content cookie copy correction count
    counter counters counts crash credentials csv cursor daemon database databases dead deadline deadlock
    decision default defaults deferral delay deliveries delivery demo demonstration deposit destination
    destinations digest disk doctor domain doorbell dots doubt doubts drain driver duplicate duration durations
    email encryption endpoint engine entry environment erase erasure errno error errors event events evidence
    example examples exchange exit expiry explain extra fact facts failure failures fault faults figures file
    filename filter finding findings floods folder function functions gauge gauges generation generator github
    glance grants handler hash header headers health heartbeat help hint histogram history hold host hosts html
    http hundred id if import inbox incident index input instance interrupt ipv4 ipv6 isolation journal json
    kafka keeper key keys kind labels leader lease leases ledger letter level limits line lines link list lists
    lock log look loop loss machine mail mailbox mailboxes map mark memo message messages metric metrics migrate
    migration migrations mime minute mistake mistakes model modules moments name names nats network networks
    notifications nul null number numbers offset opentelemetry operation operations operator option options order
    outage outbox outcome outcomes owner page pages pair park parser part partition parts pass password path pattern
    patterns pause pauses payload payloads payment payments people person picture place plan plans point poison
    policies policy pooler port post postgres postmark preview primary probe probes processes profile program
    programs progress provider providers proxy prune psycopg psycopg2 publish published publisher publishers
    queries query queue queues quota rabbitmq rate read reader readings readme readmes reads reason reasons
    receipt receipts receiver receivers recipient reconcile reconciler redirect redis reference refund refunds
    refusal reload removal renewal replay replication report request requests requeue requirement resend
    resolver response restart restore result results resume retention retry rights role rollback rotation round
    row rows rule run savepoint schema schemas scheme scope screen script search secret secrets seed selection
    send sender senders sends sentence sentences server servers service serving session setting settings settle
    share shortage shutdown side signature simulation sink slot slots smtp soak source span spelling spread
    sqlalchemy sqlite standby state statement statements status step stop stops store story stream streams
    stripe structure subject subscription subscriptions success suite summary surface svix table tables tenant
    tenants terminal test testing text texts thread threads threat threshold time timeout times token tokens
    topic trace tracing transaction transfers trigger trouble turn tutorial type types url urls usage users
    values variable variables verb verbs verify version visitor wait walk walks wallet way webhook webhooks
    wheel work worker workers write writer
"""

FORBIDDEN, NOUNS = set(_FORBIDDEN.split()), set(_NOUNS.split())


def names() -> list[tuple[str, list[str]]]:
    """Each test, and the words of its name; those that name a requirement use its words."""
    return [
        (f"{path.relative_to(ROOT)}::test_{name}", name.split("_"))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for name in TEST.findall(path.read_text("utf-8"))
        if not NUMBER.match(name)
    ]


def test_names_begin_with_their_subject() -> None:
    assert [test for test, words in names() if words[0] in FORBIDDEN] == []


def test_names_have_a_noun_of_the_domain_among_their_first_words() -> None:
    assert [test for test, words in names() if not NOUNS.intersection(words[:3])] == []
