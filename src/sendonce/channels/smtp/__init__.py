"""mailto: over SMTP, with connections that stay open. Needs the extra `email` (aiosmtplib)."""

from sendonce.channels.smtp.channel import POLICY, SmtpChannel
from sendonce.channels.smtp.settings import SmtpSettings

__all__ = ["POLICY", "SmtpChannel", "SmtpSettings"]
