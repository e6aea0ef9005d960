"""Open connections to the mail server: kept for the next mail, closed when there is none for a while."""

import asyncio
import ssl

from sendonce.channels.smtp.session import Ours, Session
from sendonce.channels.smtp.settings import SmtpSettings
from sendonce.domain.answers import CREDENTIALS
from sendonce.domain.outcomes import Deferred

IDLE_SECONDS = 30.0
# After a failure of ours nobody dials for so long: a server that refuses our password locks us out for trying on.
REST_SECONDS = 1.0
REST_AFTER_LOG_IN_SECONDS = 30.0


class Pool:
    """The connection used last is taken first. Whoever uses one holds one of the `slots`."""

    def __init__(self, settings: SmtpSettings, tls: ssl.SSLContext | None) -> None:
        self._settings = settings
        self._tls = tls
        self._idle: list[Session] = []
        self.slots = asyncio.Semaphore(settings.pool)
        self._sweeping: asyncio.TimerHandle | None = None
        self._trouble: Deferred | None = None
        self._rest_until = 0.0

    def reuse(self) -> Session | None:
        """A connection that was open a moment ago, if there is one."""
        while self._idle:
            session = self._idle.pop()
            if session.is_connected and asyncio.get_running_loop().time() - session.used_at < IDLE_SECONDS:
                return session
            session.leave()
        return None

    async def open(self) -> Session:
        """A new connection; Ours says why there is none."""
        now = asyncio.get_running_loop().time()
        if self._trouble is not None and now < self._rest_until:
            raise Ours(self._trouble)
        try:
            session = await Session.open(self._settings, self._tls)
        except Ours as trouble:
            self._trouble = trouble.outcome
            log_in = trouble.outcome.code == CREDENTIALS.code
            self._rest_until = now + (REST_AFTER_LOG_IN_SECONDS if log_in else REST_SECONDS)
            raise
        self._trouble = None
        return session

    def give_back(self, session: Session) -> None:
        """Keep it for the next mail, or cut it when something of the last one is left on it."""
        if not session.is_ready or not session.is_connected:
            session.drop()
            return
        self._idle.append(session)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._sweep)

    async def close(self) -> None:
        """Say good-bye on every connection that is not in use."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        idle, self._idle = self._idle, []
        for session in idle:
            session.leave()
        await asyncio.sleep(0)  # the loop closes the sockets in its next round

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        old = loop.time() - IDLE_SECONDS
        for session in self._idle:
            if session.used_at <= old:
                session.leave()
        self._idle = [session for session in self._idle if session.used_at > old]
        self._sweeping = loop.call_later(IDLE_SECONDS, self._sweep) if self._idle else None
