"""The Admin: everything that a person can see and do, for one's own pages and services, and for the command line.

    with sendonce.Admin.open("postgresql://…", operator="shop admin") as admin:
        letters = admin.dead_letters(type="order.placed")
        admin.requeue([each.id for each in letters], reason="the receiver is back")

In an event loop it is `async with sendonce.Admin.aopen(…) as admin`, and each verb has an `a` before it: `await
admin.arequeue(…)`. On your own connection, `sendonce.Admin.on(connection, operator=…)`, it is part of your transaction.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sendonce.admin import bulk, explain, stops, subscriptions
from sendonce.admin import evidence as late
from sendonce.admin.bulk import Planned
from sendonce.admin.evidence import Imported
from sendonce.admin.explain import Explanation
from sendonce.admin.inbox import InboxAdmin
from sendonce.admin.scoped import Scoped
from sendonce.admin.session import AddressSession, LoopThread, StoreSession, address_verb, sync
from sendonce.admin.tenants import TenantAdmin
from sendonce.domain.evidence import Evidence, told
from sendonce.domain.requests import RequestState
from sendonce.errors import ConfigError
from sendonce.sql.drivers import AsyncConnection, SyncConnection, is_async, shown
from sendonce.sql.steps import run_sync
from sendonce.store.bulk import DEFAULT_RATE, OperationRow
from sendonce.store.callers import store_on
from sendonce.store.filters import SHOWN_OF_ONE, Filter, Page
from sendonce.store.late_evidence import Weighed
from sendonce.store.migrations import Backfill
from sendonce.store.records import (
    Acted,
    AlertRow,
    AttemptRow,
    DeadLetterGroup,
    DeadLetterRow,
    DeliveryRow,
    EventRow,
    EvidenceRow,
    FindingRow,
    LossRow,
    RequestRow,
    Room,
    Status,
    StopRow,
    SubscriptionRow,
    WorkerRow,
)

if TYPE_CHECKING:
    from sendonce.admin.audit import AuditReport
    from sendonce.admin.doctor import Diagnosis, Limits
    from sendonce.admin.erase import Erasing
    from sendonce.admin.prune import ArchiveFile
    from sendonce.admin.prune import PruneProgress as Pruned
    from sendonce.admin.reconcile import Doubted
    from sendonce.admin.stops import Stopped
    from sendonce.admin.subscriptions import HeldBack, Standing
    from sendonce.admin.verify import Verified, VerifyPlan
    from sendonce.channels.registry import Channels
    from sendonce.config.load import Settings
    from sendonce.engine.reconciler import Asked, Reconciled
    from sendonce.engine.retention import RetentionSettings

T = TypeVar("T")
LONGEST_OPERATOR = 200


@dataclass(frozen=True)
class Admin(
    Scoped[
        EventRow,
        DeliveryRow,
        AttemptRow,
        DeadLetterRow,
        DeadLetterGroup,
        SubscriptionRow,
        RequestRow,
        RequestState,
    ],
    InboxAdmin,
):
    """The whole database, for operators. `for_tenant` is what one of its tenants may see and do."""

    @classmethod
    @contextmanager
    def open(
        cls, url: str, *, operator: str, config: Path | str | None = None, connect: bool = True
    ) -> "Iterator[Admin]":
        """Open an existing database for callers without an event loop; any thread may call its verbs.

        `config` is the settings file, else found as `sendonce worker` finds it. Without `connect` the database is
        connected to by the first verb that needs it, as `doctor` does not.
        """
        thread = LoopThread()
        try:
            session = AddressSession(url, config, thread)
            try:
                session.secret_box()
                if connect:
                    thread.run(session.store())
                yield cls(session, operator=operator)
            finally:
                thread.run(session.close())
        finally:
            thread.close()

    @classmethod
    @asynccontextmanager
    async def aopen(
        cls, url: str, *, operator: str, config: Path | str | None = None, connect: bool = True
    ) -> "AsyncIterator[Admin]":
        """Open an existing database in this event loop: its verbs are awaited, and their names begin with an a."""
        session = AddressSession(url, config, None)
        try:
            session.secret_box()
            if connect:
                await session.store()
            yield cls(session, operator=operator)
        finally:
            await session.close()

    @classmethod
    def on(cls, connection: SyncConnection, *, operator: str, config: Path | str | None = None) -> "Admin":
        """Work on your own connection: what a verb does is a part of your transaction.

        Nothing is committed or rolled back here, unless the connection commits every statement by itself. Each step of
        a verb is a savepoint: one that fails leaves your transaction as it was. A verb that needs transactions of its
        own raises NotAllowed. ConfigError for what is no open connection, SchemaMismatch for one without our tables.
        """
        if is_async(connection):
            raise ConfigError(f"{shown(connection)} is async: say `await Admin.aon(…)`, and await its verbs")
        return cls(StoreSession(run_sync(store_on(connection)), config=config), operator=operator)

    @classmethod
    async def aon(cls, connection: AsyncConnection, *, operator: str, config: Path | str | None = None) -> "Admin":
        """`on` for an async connection or session."""
        store = await store_on(connection)
        if not is_async(connection):
            raise ConfigError(f"{shown(connection)} is not async: say `Admin.on(…)`, and call its verbs without an a")
        return cls(StoreSession(store, is_async=True, config=config), operator=operator)

    def for_tenant(self, tenant: str) -> TenantAdmin:
        """Return what this tenant may see and do: its own rows, without what operators and others have said."""
        if not isinstance(tenant, str) or not tenant:
            raise ConfigError("a tenant has a name; an Admin without a tenant sees what belongs to none")
        return TenantAdmin(self.session, operator=self.operator, tenant=tenant)

    # What there is to see.

    async def astatus(self) -> Status:
        """Return the whole at a glance, of all tenants."""
        return await (await self._store()).status()

    status = sync(astatus)

    async def aexplain(self, wanted: int | str) -> Explanation:
        """Explain a delivery (its id), or what has this id, key or token: where it is, why, and what happens next."""
        if isinstance(wanted, int):
            wanted = f"delivery:{(await self.adelivery(wanted)).id}"
        return await explain.explain(await self._store(), wanted)

    explain = sync(aexplain)

    async def apayload(self, event_id: int) -> str | None:
        """Return an event's payload; None when it is no longer kept."""
        await self.aevent(event_id)
        return await (await self._store()).payload(event_id)

    payload = sync(apayload)

    async def acontent(self, delivery_id: int) -> str | None:
        """Return what a delivery is sent instead of the event's payload; None when that is what it is sent."""
        await self.adelivery(delivery_id)
        return await (await self._store()).content(delivery_id)

    content = sync(acontent)

    async def afindings_of(
        self, delivery_id: int, *, before: int | None = None, limit: int = SHOWN_OF_ONE
    ) -> Page[FindingRow]:
        """Return the newest of what late results, audits and attestations have found of a delivery, in order."""
        await self.adelivery(delivery_id)
        return await (await self._store()).findings_of(delivery_id, before=before, limit=limit)

    findings_of = sync(afindings_of)

    async def aworkers(self) -> tuple[WorkerRow, ...]:
        """List the workers that are alive."""
        return (await self.astatus()).workers

    workers = sync(aworkers)

    async def astops(self) -> tuple[StopRow, ...]:
        """List what is stopped."""
        return (await self.astatus()).stops

    stops = sync(astops)

    async def aparked(self, *, after: str = "", limit: int = 100) -> list[Room]:
        """List what deliveries wait for, by name: destinations, hosts, rates and channels. `after`: the last name."""
        return await (await self._store()).rooms(after=after, limit=limit)

    parked = sync(aparked)

    async def aheld_back(self) -> "list[HeldBack]":
        """List subscriptions that are paused or disabled while something waits for them."""
        return await subscriptions.held_back(await self._store())

    held_back = sync(aheld_back)

    async def aalerts(self) -> list[AlertRow]:
        """List the alerts by name, those that are over too."""
        return await (await self._store()).alerts()

    alerts = sync(aalerts)

    async def abackfills(self) -> list[Backfill]:
        """List how far the back-fill of each migration has come."""
        return await (await self._store()).backfills()

    backfills = sync(abackfills)

    async def asubscription_details(self, subscription_id: int) -> "Standing":
        """Return a subscription with which secrets it has, and how many of its deliveries wait for what."""
        return await subscriptions.look(await self._store(), subscription_id)

    subscription_details = sync(asubscription_details)

    # The operations log, and what is done to all that match a filter.

    async def aoperations(
        self, *, before: int | None = None, state: str | None = None, limit: int = 50
    ) -> Page[OperationRow]:
        """List who did what and why, newest first."""
        return await (await self._store()).operations(before=before, state=state, limit=limit)

    operations = sync(aoperations)

    async def aoperation(self, operation_id: int) -> OperationRow:
        return await bulk.find(await self._store(), operation_id)

    operation = sync(aoperation)

    @address_verb
    async def apreview_operation(self, kind: str, wanted: Filter, *, after: int | None = None) -> Planned:
        """Count what requeue, attest, discard, replay or cancel would do to what matches; nothing is changed.

        One call looks at a bounded number of rows: go on with `after=planned.next_after`, and add the previews up.
        """
        return await bulk.plan(await self._store(), kind, wanted, after=after)

    preview_operation = sync(apreview_operation)

    @address_verb
    async def amatches(self, kind: str, wanted: Filter) -> bool:
        """Return whether anything matches; look no further than that."""
        return await bulk.matches(await self._store(), kind, wanted)

    matches = sync(amatches)

    @address_verb
    async def abegin_operation(
        self, kind: str, wanted: Filter, *, reason: str, rate: float = DEFAULT_RATE
    ) -> OperationRow:
        """Enter an operation on all that match now: requeue, attest, discard, replay or cancel. `run_operation` does
        it."""
        return await bulk.begin(await self._store(), kind, wanted, operator=self.operator, reason=reason, rate=rate)

    begin_operation = sync(abegin_operation)

    @address_verb
    async def arun_operation(
        self, operation_id: int, *, on_progress: Callable[[OperationRow], None] | None = None
    ) -> OperationRow:
        """Do an operation from where it has come to, at its rate, until it has ended or somebody has paused it."""
        store = await self._store()
        return await _last(bulk.run(store, operation_id), on_progress) or await bulk.find(store, operation_id)

    run_operation = sync(arun_operation)

    async def apause_operation(self, operation_id: int, *, reason: str | None = None) -> OperationRow:
        """Have whoever runs it stop before the next step."""
        return await bulk.pause(await self._store(), operation_id, operator=self.operator, reason=reason)

    pause_operation = sync(apause_operation)

    async def aresume_operation(self, operation_id: int, *, reason: str | None = None) -> OperationRow:
        """Let it go on; `run_operation` does it. Also for one whose runner was killed."""
        return await bulk.resume(await self._store(), operation_id, operator=self.operator, reason=reason)

    resume_operation = sync(aresume_operation)

    async def acancel_operation(self, operation_id: int, *, reason: str | None = None) -> OperationRow:
        """End it where it is, for good. What it has done stays done."""
        return await bulk.cancel(await self._store(), operation_id, operator=self.operator, reason=reason)

    cancel_operation = sync(acancel_operation)

    # Stops.

    async def astop(self, scope: str, value: str = "", *, reason: str | None = None) -> "Stopped":
        """Hold back sends of a scope (all, channel, destination or tenant) from now on, on every host.

        What is being sent at this moment is not called back; the answer says how many that are.
        """
        return await stops.stop(await self._store(), scope, value, operator=self.operator, reason=reason)

    stop = sync(astop)

    async def aresume(self, scope: str, value: str = "") -> Acted:
        """Lift a stop; what it held back is due again."""
        return await stops.resume(await self._store(), scope, value, operator=self.operator)

    resume = sync(aresume)

    # Secrets.

    @address_verb
    async def areencrypt_secrets(self) -> int:
        """Encrypt every stored secret with the first of the keys; return how many there are."""
        return await subscriptions.reseal(await self._store(), self.session.secret_box(), operator=self.operator)

    reencrypt_secrets = sync(areencrypt_secrets)

    # After a restore or a failover.

    @address_verb
    async def adoubt(
        self,
        *,
        reason: str,
        wait: timedelta | None = None,
        even_if_running: bool = False,
        on_progress: "Callable[[Doubted], None] | None" = None,
    ) -> int:
        """Put everything that is open in doubt, so that receivers are asked before it is sent; return how many."""
        from sendonce.admin.reconcile import open_in_doubt

        steps = open_in_doubt(
            await self._store(), operator=self.operator, reason=reason, wait=wait, even_if_running=even_if_running
        )
        done = await _last(steps, on_progress)
        return 0 if done is None else done.changed

    doubt = sync(adoubt)

    @address_verb
    async def anothing_lost(self, *, reason: str) -> LossRow | None:
        """Say that a loss of commits which a worker has noticed is none; return it, or None when there is none."""
        return await (await self._store()).disprove_loss(operator=self.operator, reason=reason)

    nothing_lost = sync(anothing_lost)

    async def ainstance(self) -> str | None:
        """Return the database's name, if it has one."""
        return await (await self._store()).instance()

    instance = sync(ainstance)

    async def aname_instance(self, name: str | None, *, reason: str | None = None) -> Acted:
        """Give the database a name (None: take it away): only workers with the same name in their settings send."""
        return await (await self._store()).name_instance(name, operator=self.operator, reason=reason)

    name_instance = sync(aname_instance)

    # Asking receivers.

    async def aevidence(
        self,
        evidence: Evidence | None = None,
        /,
        *,
        token: str | None = None,
        notification_id: str | None = None,
        outcome: str = "",
        source: str = "",
        reference: str | None = None,
        occurred_at: datetime | None = None,
        error_code: str | None = None,
        details: str | None = None,
    ) -> Weighed:
        """Settle what waits, or is held, by what has come in about it: Delivered or Refused, and who says so.

        What has ended is compared, and a contradiction is a finding. The same evidence counts once. Nothing is written
        where nothing matches, or while it is being sent: give it again later. Looked for among what is in doubt and the
        newest deliveries.
        """
        said = evidence or Evidence(
            source=source,
            outcome=told(outcome),
            token=token,
            notification_id=notification_id,
            reference=reference,
            occurred_at=occurred_at,
            error_code=error_code,
            details=details,
        )
        return await late.add(await self._store(), said, operator=self.operator)

    evidence = sync(aevidence)

    async def aevidence_of(
        self, delivery_id: int, *, before: int | None = None, limit: int = SHOWN_OF_ONE
    ) -> Page[EvidenceRow]:
        """Return the newest of what has come in later about a delivery, in order."""
        await self.adelivery(delivery_id)
        return await (await self._store()).evidence_of(delivery_id, before=before, limit=limit)

    evidence_of = sync(aevidence_of)

    async def aimport_evidence(
        self,
        text: str,
        *,
        source: str,
        match: str = "token",
        is_csv: bool = True,
        dry_run: bool = False,
        on_progress: Callable[[Imported], None] | None = None,
    ) -> Imported:
        """Apply a file of evidence: CSV with a header, or JSON lines. A bad line, and nothing of it is written.

        `match` names what a line is known by: token or notification_id.
        """
        lines, bad = late.read_lines(text, source=source, match=match, is_csv=is_csv)
        if bad:
            return Imported(bad=bad)
        return await late.import_lines(
            await self._store(), lines, operator=self.operator, dry_run=dry_run, on_progress=on_progress
        )

    import_evidence = sync(aimport_evidence)

    @address_verb
    async def areconcile(
        self,
        *,
        settings: "Settings | None" = None,
        channels: "Channels | None" = None,
        on_asked: "Callable[[Asked], None] | None" = None,
    ) -> "Reconciled":
        """Ask receivers now about everything in doubt; nothing is sent.

        `settings` are those of the settings file unless given; `channels` are your own, closed at the end.
        """
        from sendonce.admin.reconcile import reconcile, through

        async with through(self.session, settings or self._settings(), channels) as opened:
            return await reconcile(opened, on_asked or (lambda each: None))

    reconcile = sync(areconcile)

    @address_verb
    async def aaudit(
        self,
        *,
        since: datetime,
        destination: str | None = None,
        repair_reason: str | None = None,
        cap: int = 100,
        settings: "Settings | None" = None,
        channels: "Channels | None" = None,
        on_progress: "Callable[[AuditReport], None] | None" = None,
    ) -> "AuditReport":
        """Check what was marked sent since then against what receivers have; findings are kept.

        With `repair_reason`, up to `cap` that receivers do not have are opened again, each looked up before it is sent.
        """
        from sendonce.admin.audit import AuditReport, Means, Repair, audit
        from sendonce.admin.reconcile import through

        repair = None if repair_reason is None else Repair(operator=self.operator, reason=repair_reason, cap=cap)
        async with through(self.session, settings or self._settings(), channels) as opened:
            means = Means(
                channels=opened.channels,
                namespace=opened.namespace,
                policy_at=opened.policies.at,
                credentials_of=opened.credentials.of,
            )
            steps = audit(opened.store, means, since=since, destination=destination, repair=repair)
            return await _last(steps, on_progress) or AuditReport()

    audit = sync(aaudit)

    # The database itself.

    @address_verb
    async def averify(
        self, plan: "VerifyPlan | None" = None, *, on_progress: "Callable[[Verified], None] | None" = None
    ) -> "Verified":
        """Check that everything in the database is as it must be; reads only, in small steps."""
        from sendonce.admin.verify import Verified, VerifyPlan, verify

        plan = plan or VerifyPlan()
        return await _last(verify(await self._store(), plan), on_progress) or Verified(plan.since)

    verify = sync(averify)

    @address_verb
    async def adoctor(self, limits: "Limits | None" = None) -> "list[Diagnosis]":
        """Look at the database's settings and surroundings, whatever its schema. `limits`: else the settings'."""
        from sendonce.admin.doctor import examine

        return await examine(str(self.session.url), limits or self._limits())

    doctor = sync(adoctor)

    @address_verb
    async def aschema_version(self) -> int:
        """Return the number of the database's schema; 0 when it has none."""
        from sendonce.compose import schema_version

        return await schema_version(str(self.session.url))

    schema_version = sync(aschema_version)

    @address_verb
    async def aprune(
        self,
        *,
        reason: str,
        retention: "RetentionSettings | None" = None,
        archive: Path | None = None,
        on_progress: "Callable[[Pruned], None] | None" = None,
    ) -> "Pruned":
        """Remove now what retention would remove in its own time; it is written to the new file `archive` first."""
        from sendonce.admin.prune import ArchiveFile, plan_of, prune

        plan, store = plan_of(retention or self._retention()), await self._store()
        if archive is None:
            return await self._pruned(prune(store, plan, operator=self.operator, reason=reason), on_progress)
        file = await asyncio.to_thread(ArchiveFile, archive)
        try:
            steps = prune(store, plan, operator=self.operator, reason=reason, archive=file.write)
            return await self._pruned(steps, on_progress, file)
        finally:
            file.close()

    prune = sync(aprune)

    @address_verb
    async def apreview_prune(
        self,
        *,
        retention: "RetentionSettings | None" = None,
        on_progress: "Callable[[Pruned], None] | None" = None,
    ) -> "Pruned":
        """Count what `prune` would remove; nothing is changed."""
        from sendonce.admin.prune import count, plan_of

        return await self._pruned(count(await self._store(), plan_of(retention or self._retention())), on_progress)

    preview_prune = sync(apreview_prune)

    @address_verb
    async def aerase(
        self,
        *,
        destination: str | None = None,
        subject: str | None = None,
        tenant: str | None = None,
        shared: bool = False,
        reason: str,
        on_progress: "Callable[[Erasing], None] | None" = None,
    ) -> "Erasing":
        """Blank what one person was sent: everything to a destination, or about a subject. That it was sent stays.

        `shared` also blanks payloads that others were sent too.
        """
        from sendonce.admin.erase import NOTHING, erase, person_of

        person = person_of(destination, subject, tenant)
        steps = erase(await self._store(), person, shared=shared, operator=self.operator, reason=reason)
        return await _last(steps, on_progress) or NOTHING

    erase = sync(aerase)

    @address_verb
    async def apreview_erase(
        self,
        *,
        destination: str | None = None,
        subject: str | None = None,
        tenant: str | None = None,
        shared: bool = False,
        on_progress: "Callable[[Erasing], None] | None" = None,
    ) -> "Erasing":
        """Count what `erase` would blank; nothing is changed."""
        from sendonce.admin.erase import NOTHING, count, person_of

        steps = count(await self._store(), person_of(destination, subject, tenant), shared=shared)
        return await _last(steps, on_progress) or NOTHING

    preview_erase = sync(apreview_erase)

    @staticmethod
    def grants_sql() -> str:
        """Return the script of the PostgreSQL roles with the least rights."""
        from sendonce.compose import grants_sql

        return grants_sql()

    # How it differs from a tenant's.

    def _tenant(self, wanted: str | None) -> str | None:
        return wanted

    def _owns(self, tenant: str) -> bool:
        return True

    def _event(self, row: EventRow) -> EventRow:
        return row

    def _delivery(self, row: DeliveryRow) -> DeliveryRow:
        return row

    def _attempt(self, row: AttemptRow) -> AttemptRow:
        return row

    def _dead_letter(self, row: DeadLetterRow) -> DeadLetterRow:
        return row

    def _group(self, row: DeadLetterGroup) -> DeadLetterGroup:
        return row

    def _subscription(self, row: SubscriptionRow) -> SubscriptionRow:
        return row

    def _request(self, row: RequestRow) -> RequestRow:
        return row

    def _request_state(self, row: RequestState) -> RequestState:
        return row

    # The settings file, read when a verb needs it.

    def _settings(self) -> "Settings":
        import os

        from sendonce.config.load import load

        return load(self.session.settings_file(), os.environ)

    def _retention(self) -> "RetentionSettings":
        import os

        from sendonce.config.load import load_retention

        return load_retention(self.session.settings_file(), os.environ)

    def _limits(self) -> "Limits":
        import os

        from sendonce.admin.doctor import Limits
        from sendonce.config.load import load_limits

        lease, timeout = load_limits(self.session.settings_file(), os.environ)
        return Limits(lease, timeout, {stage.value: age for stage, age in self._retention().stages.items()})

    async def _pruned(
        self,
        steps: "AsyncGenerator[Pruned, None]",
        on_progress: "Callable[[Pruned], None] | None",
        file: "ArchiveFile | None" = None,
    ) -> "Pruned":
        from dataclasses import replace

        from sendonce.admin.prune import PruneProgress

        done = await _last(steps, on_progress) or PruneProgress()
        return done if file is None else replace(done, archived=file.documents)


async def _last(steps: AsyncIterator[T], on_progress: Callable[[T], None] | None) -> T | None:
    """Carry out all steps; return what the last one has said."""
    last = None
    async with aclosing(steps):  # type: ignore[type-var]
        async for last in steps:
            if on_progress is not None:
                on_progress(last)
    return last
