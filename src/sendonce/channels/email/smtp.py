"""mailto: over SMTP. Says exactly whether a mail may have been accepted: only when the final dot went out."""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import replace

from sendonce.channels.email.mail import Mail
from sendonce.channels.email.mime import Letter, compose
from sendonce.channels.email.smtp_session import ConnectionLost, OurFault, Pool, SmtpProgress, SmtpStep
from sendonce.channels.email.smtp_settings import SmtpSettings
from sendonce.channels.protocol import Message
from sendonce.domain.answers import BAD_CONTENT, CONNECTIONS_BUSY, CUT_AFTER, CUT_BEFORE, RECIPIENT_LATE, SERVER
from sendonce.domain.outcomes import Outcome, Refused
from sendonce.errors import BadDestination, ConfigError

# Nobody can be asked about a mail, and a server may take its time for the last answer.
POLICY: Mapping[str, object] = {"if_unsure": "hold", "timeout": "20s"}
# The answer to the final dot gets the rest: giving up before it is safe, after it nobody knows.
SHARE_BEFORE_FINAL = 0.6


class SmtpChannel:
    """Sends mails over SMTP, all of a worker's through one pool of connections."""

    def __init__(self, settings: SmtpSettings) -> None:
        self._settings = settings
        self._pool = Pool(settings, None if settings.security == "plain" else _trust(settings.ca))

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        """Hand the mail to the server once and say what its answer means."""
        mail = Mail.of(message, self._settings.sender)
        if isinstance(mail, Refused):
            return mail
        try:
            letter = compose(mail, message.token, message.recorded_at)
        except BadDestination as error:
            return replace(BAD_CONTENT, message=str(error))
        return await self._within(letter, timeout)

    async def close(self) -> None:
        await self._pool.close()

    async def _within(self, letter: Letter, timeout: float) -> Outcome:
        progress = SmtpProgress()
        end = asyncio.get_running_loop().time() + timeout
        try:
            async with asyncio.timeout(timeout * SHARE_BEFORE_FINAL) as limit:
                progress.before_final = lambda: limit.reschedule(end)
                async with self._pool.slots:
                    return await self._hand_over(letter, progress)
        except OurFault as trouble:
            return trouble.outcome
        except ConnectionLost as lost:
            return _lost(progress.step, lost.code)
        except TimeoutError:
            return _late(progress.step)

    async def _hand_over(self, letter: Letter, progress: SmtpProgress) -> Outcome:
        progress.step = SmtpStep.CONNECTING
        session = self._pool.reuse()
        try:
            answer: Outcome | None = None
            if session is not None:
                try:
                    answer = await session.begin(letter, progress)
                except ConnectionLost:
                    session.drop()
                if not session.is_connected:
                    # It was closed while it was idle: nothing of this mail was said yet, so a new one is as good.
                    session = None
            if session is None:
                progress.step = SmtpStep.CONNECTING
                session = await self._pool.open()
                answer = await session.begin(letter, progress)
            return answer or await session.finish(letter, progress)
        finally:
            if session is not None:
                self._pool.give_back(session)


def _lost(step: SmtpStep, code: str) -> Outcome:
    if step >= SmtpStep.FINAL:
        return replace(CUT_AFTER, code=code)
    return replace(CUT_BEFORE, code=code, message=f"no valid answer at {step.name}, before the whole mail had gone out")


def _late(step: SmtpStep) -> Outcome:
    match step:
        case SmtpStep.WAITING:
            return CONNECTIONS_BUSY
        case SmtpStep.CONNECTING:
            return replace(SERVER, message="the mail server could not be reached in time")
        case SmtpStep.RCPT:
            return RECIPIENT_LATE
        case SmtpStep.FINAL:
            return replace(
                CUT_AFTER, code="read_timeout", message="no answer in time after the whole mail had gone out"
            )
    text = f"no answer in time at {step.name}, before the whole mail had gone out"
    return replace(CUT_BEFORE, code="read_timeout", message=text)


def _trust(ca: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise ConfigError(f"smtp ca: {ca} cannot be read as certificates ({type(error).__name__})") from None
