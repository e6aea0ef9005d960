"""The checks of `sendonce verify`: what each looks through, what is wrong when it finds something, and what to do."""

from dataclasses import dataclass, replace

from sendonce.admin.advice import Advice
from sendonce.store.verifying import ROUTED, Walk


@dataclass(frozen=True, slots=True)
class Check:
    """One rule that holds for every row. `walk` is None for what is looked at once, as a whole.

    `of` is what the ids that it finds are ids of; FOUND stands in the advice for the first of them.
    """

    name: str
    walk: Walk | None
    of: str
    wrong: str
    to_do: str = ""
    advice: tuple[Advice, ...] = ()


FOUND = 0
_EXPLAIN = Advice(verb="explain", why="look with", id=FOUND)
_CANCEL = Advice(verb="cancel", why="cancel it with", id=FOUND, needs=("reason",))
_RESTORE = "it was changed past sendonce; compare it with a backup"
_REQUEUE = f"{_RESTORE}, and requeue or cancel what should not be as it is"

RULES = Check(
    "rules",
    None,
    "rule",
    "a rule of the database is not as the migrations made it: without a trigger or a key nothing keeps rows from being "
    "changed or doubled, without an index everything is slow",
    "find out who did it, and run verify again",
)
COUNTERS = Check(
    "counters",
    None,
    "counter",
    "a counter is not the number of deliveries that it counts",
    "deliveries were removed or added past sendonce, or counters were; the deliveries are what is true",
)

CHECKS = (
    RULES,
    Check(
        ROUTED,
        Walk.EVENTS,
        "event",
        "it does not have the deliveries it was routed to when it was recorded",
        f"{_RESTORE}; what is missing was never sent, or nobody can tell: publish it again under a new key",
    ),
    Check(
        "contents",
        Walk.EVENTS,
        "event",
        "content was recorded for a destination that has no delivery",
        f"it will never be sent; {_RESTORE}, and publish it again under a new key if it is still wanted",
    ),
    Check(
        "payloads",
        Walk.EVENTS,
        "event",
        "its payload, or the content of an open delivery of it, is gone, and neither retention nor an erasure took it",
        f"what is open is given up as content_gone at its next attempt; {_RESTORE}, or publish it under a new key",
    ),
    Check(
        "digests",
        Walk.EVENTS,
        "event",
        "its payload, subject, version, destinations or contents are not those it was recorded with",
        f"{_RESTORE}; stop what is open if it must not be sent like this",
    ),
    Check(
        "events",
        Walk.DELIVERIES,
        "delivery",
        "its event is missing, so that there is nothing to send",
        _RESTORE,
        (replace(_CANCEL, why="cancel it if it is open"),),
    ),
    Check(
        "content",
        Walk.DELIVERIES,
        "delivery",
        "it has content of its own, and that is missing",
        f"the next attempt gives it up as content_gone; {_RESTORE}",
    ),
    Check(
        "history",
        Walk.DELIVERIES,
        "delivery",
        "it is missing, and its attempts are there",
        f"somebody deleted it past sendonce; {_RESTORE}",
    ),
    Check(
        "attempts",
        Walk.DELIVERIES,
        "delivery",
        "its attempts are not as many as it counts, have a gap, or are open when it is not",
        _RESTORE,
        (_EXPLAIN,),
    ),
    Check(
        "leased",
        Walk.DELIVERIES,
        "delivery",
        "it is being sent under a lease that is not there, so that nobody will ever take it over",
        "stop the workers, end its open attempt and make it due again by hand, or restore the lease; "
        "it may have been sent, so set in_doubt",
    ),
    Check(
        "waiting",
        Walk.DELIVERIES,
        "delivery",
        "it is open and has neither a due time nor a reason to wait, or has one although it is not waiting",
        _REQUEUE,
        (_EXPLAIN,),
    ),
    Check(
        "parked",
        Walk.DELIVERIES,
        "delivery",
        "it is parked on something that is not there, so that nothing will ever let it go",
        "stop and resume what it names, or pause and resume that subscription: that lets everything go that waits for "
        "it",
    ),
    Check(
        "expired",
        Walk.DELIVERIES,
        "delivery",
        "it waits for an attempt long after its deadline",
        advice=(_CANCEL,),
    ),
    Check(
        "generations",
        Walk.DELIVERIES,
        "delivery",
        "the generation before it is missing or still open: the same may be sent twice at once",
        _REQUEUE,
        (_EXPLAIN,),
    ),
    Check(
        "dead_letters",
        Walk.DELIVERIES,
        "delivery",
        "it was given up and has no dead letter, or has one and was not given up",
        "nobody would see that it failed; requeue it or publish it again",
        (_EXPLAIN,),
    ),
    Check(
        "decided",
        Walk.DELIVERIES,
        "delivery",
        "its dead letter is closed as requeued, attested or corrected and nothing came after it, or is open although "
        "something did",
        advice=(_EXPLAIN, Advice(verb="replay", why="if it never arrived", id=FOUND, needs=("reason",))),
    ),
    Check(
        "corrections",
        Walk.DELIVERIES,
        "delivery",
        "it goes instead of another that is missing or was not given up, or is itself missing",
        _REQUEUE,
        (_EXPLAIN,),
    ),
    Check(
        "outcomes",
        Walk.DELIVERIES,
        "delivery",
        "its state is not what its last attempt came to",
        advice=(
            _EXPLAIN,
            Advice(
                verb="replay",
                why="if it says Completed and the receiver does not have it",
                id=FOUND,
                given={"even_if_sent": True},
                needs=("reason",),
            ),
        ),
    ),
    Check(
        "ended",
        Walk.DELIVERIES,
        "delivery",
        "it was changed after it had ended",
        f"somebody went past the rules; {_RESTORE}",
    ),
    Check(
        "doubt",
        Walk.DELIVERIES,
        "delivery",
        "it may have been sent and does not say so, or says so although it was delivered",
        advice=(Advice(verb="doubt", why="if it is open, put it in doubt before it is sent again", needs=("reason",)),),
    ),
    Check(
        "ids",
        Walk.DELIVERIES,
        "delivery",
        "it does not have the id that the other side has given it",
        f"a look-up would ask for the wrong one; {_RESTORE}",
        (_EXPLAIN,),
    ),
    Check(
        "tokens",
        Walk.DELIVERIES,
        "delivery",
        "another delivery has the same token: a receiver that deduplicates drops one of the two",
        "publish what was dropped again under a new key",
        (replace(_EXPLAIN, why="look at both with"),),
    ),
    COUNTERS,
    Check(
        "lease_ends",
        Walk.LEASES,
        "lease",
        "it ends later than a lease can: what its worker holds is not taken over if that dies",
        "the database's clock was set back, or somebody changed the lease; restart its worker, and wait or shorten it",
    ),
    Check(
        "lease_expiry",
        Walk.LEASES,
        "lease",
        "it has run out long ago, a worker is alive, and nobody has closed it",
        "look at the workers' logs: closing what expired fails for one of its deliveries",
    ),
    Check(
        "lease_use",
        Walk.LEASES,
        "lease",
        "it is renewed, and nothing is sent under it",
        "restart the worker that holds it",
    ),
    Check(
        "requests",
        Walk.REQUESTS,
        "request",
        "its event, its recipients or one recipient's delivery is missing, so that it can never succeed",
        f"{_RESTORE}; ask again under a higher version",
    ),
    Check(
        "request_parts",
        Walk.REQUESTS,
        "request",
        "it is missing, and its recipients or keys are there",
        f"whoever asks with one of these keys gets no answer; {_RESTORE}",
    ),
    Check(
        "operations",
        Walk.OPERATIONS,
        "operation",
        "it is half done, and nobody has moved it for an hour",
        advice=(
            Advice(verb="resume_operation", why="go on with", id=FOUND),
            Advice(verb="cancel_operation", why="or end it", id=FOUND),
        ),
    ),
    Check(
        "handled",
        Walk.MESSAGES,
        "message",
        "it is marked handled, and its consumer has no receipt for it: if it comes again it is handled twice",
        f"the receipt was removed past sendonce; {_RESTORE}, and see whether its effect is there",
    ),
    Check(
        "message_generations",
        Walk.MESSAGES,
        "message",
        "somebody has had it handled again, and the next generation of it is missing",
        f"{_RESTORE}; have it sent again where it comes from",
    ),
    Check(
        "tries",
        Walk.MESSAGES,
        "message",
        "it is missing, and its tries are there",
        f"somebody deleted it past sendonce; {_RESTORE}",
    ),
)
NAMES = tuple(check.name for check in CHECKS)
