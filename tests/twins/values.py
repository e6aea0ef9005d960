"""What is said to both databases: ordinary values, and those at the edge of what a text or a number may be."""

from datetime import timedelta

from hypothesis import strategies as st

from sendonce.domain.breakers import Pauses
from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.emails import Email
from sendonce.domain.outcomes import Accepted, Deferred, Delivered, Failed, Outcome, Refused, Unknown
from sendonce.domain.policies import Policy
from sendonce.store.filters import Filter
from sendonce.store.upkeep import Person

US, S, D = timedelta(microseconds=1), timedelta(seconds=1), timedelta(days=1)
POLICY = Policy(max_attempts=3, first_delay=10 * S, longest_delay=100 * S, jitter=0.3, doubt_wait=30 * S)
HOLD = 60 * S
PAUSES = Pauses(first=S, longest=60 * S)
SCHEMES = ("null", "deaf", "asked", "https", "mailto")
URLS = ("null:a", "deaf:b", "asked:c", "https://one.example/in", "https://one.example/out", "https://two.example:8443/")
MAIL = Email("ada@example.com", subject="hello", text="there")
TENANTS = ("", "acme", "ünï")
TYPES = ("memo.created", "memo.deleted", "order.created")
PATTERNS = ("memo.*", "*", "order.created", "memo.created")

ODD = ("plain", "", "a\0b", "lone \ud800 one", "x" * 700, "müßig 🙂", "'; --", 'a "quoted" \\ {text}', "NULL", "\n\t ")
texts = st.sampled_from(ODD)
maybe = st.none() | texts
places, few = st.integers(0, 50), st.integers(0, 2)
ids = st.integers(-1, 12) | st.just(2**62)
spans = st.sampled_from([0 * S, US, S, 10 * S, 30 * S, 60 * S, 61 * S, 3600 * S, 40 * D, 100 * D])
names = st.lists(st.sampled_from(SCHEMES), min_size=1, unique=True)
who = st.fixed_dictionaries({"operator": texts, "reason": texts})
who_perhaps = st.fixed_dictionaries({"operator": texts, "reason": maybe})
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Delivered, maybe, maybe),
    st.builds(Accepted, texts, maybe),
    st.builds(Refused, texts, texts, maybe),
    st.builds(Failed, texts, texts, st.none() | spans, maybe),
    st.builds(Unknown, texts, texts, maybe),
    st.builds(Deferred, texts, texts, st.none() | spans, maybe),
)
filters = st.builds(
    Filter, status=st.none() | st.sampled_from(DeliveryState), type=st.none() | st.sampled_from(TYPES),
    destination=st.none() | st.sampled_from(URLS), tenant=st.none() | st.sampled_from(TENANTS),
    reason=st.none() | st.sampled_from(ReasonClass), limit=st.integers(1, 5),
)  # fmt: skip
persons = st.builds(Person, destination=st.sampled_from(URLS), tenant=st.none() | st.sampled_from(TENANTS)) | st.builds(
    Person, subject=st.sampled_from(["s-1", "s-2"]), tenant=st.none() | st.sampled_from(TENANTS)
)
