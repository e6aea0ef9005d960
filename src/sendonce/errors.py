"""Every error a caller can meet, in one tree.

SendonceError
├── ConfigError         a setting is wrong; nothing was started
├── PublishError        nothing was recorded
│   ├── BadEvent        the type, key, payload or another argument cannot be recorded
│   ├── BadDestination  not a destination that can be reached
│   ├── KeyReused       this key was used for different content
│   ├── RerunRefused    a lower version, or a higher one that nobody asked for explicitly
│   └── NotInTransaction  the connection would commit by itself
├── BadMessage          a message without a usable id, or over its limits: nothing was handled
├── BadWebhook          a webhook that came in does not prove who has sent it, or is not what it should be
├── StoreError
│   ├── StoreBusy       try again: lost connection, deadlock, lock timeout, full disk
│   │   └── ServerReadOnly  a standby, or set to read only: try again when the primary answers
│   ├── CommitUnknown   look before you try again: the connection was lost while committing
│   └── SchemaMismatch  run the migrations, or another version of the program
├── NotAllowed          the rules forbid this move
└── NotFound            nothing has this id
"""


class SendonceError(Exception):
    """The base of all errors raised on purpose. The message says what to do next."""


class ConfigError(SendonceError):
    """A setting is wrong; nothing was started."""


class PublishError(SendonceError):
    """The event was not recorded, and nothing of it was written."""


class BadEvent(PublishError):
    """The type, key, payload or another argument cannot be recorded."""


class BadDestination(PublishError):
    """Not a destination that can be reached."""


class KeyReused(PublishError):
    """This key was used before, for different content or destinations."""


class RerunRefused(PublishError):
    """The subject has a newer version, or this one is higher and no rerun was asked for."""


class NotInTransaction(PublishError):
    """The connection would commit by itself, so the event could not belong to the caller's transaction."""


class BadMessage(SendonceError):
    """The consumer, the id or another part of a message cannot be used. Nothing was handled or written."""


class BadWebhook(SendonceError):
    """A webhook that came in does not prove who has sent it, or is not what it should be. Answer it with 401."""


class StoreError(SendonceError):
    """The database did not do what was asked."""


class BadValue(StoreError):
    """The database refused a value, not the rules: somebody's text or number is out of its range."""


class StoreBusy(StoreError):
    """The database cannot answer now (lost connection, deadlock, lock, full disk). The same call may be made again."""


class ServerReadOnly(StoreBusy):
    """This server only reads: a standby, or it is set to. The same call may be made again when the primary answers."""


class CommitUnknown(StoreError):
    """The connection was lost while committing: it may have been written. Look before you try again."""


class SchemaMismatch(StoreError):
    """The database's schema is older or newer than this program can use."""


class NotAllowed(SendonceError):
    """The rules forbid this move, for example a requeue of a delivery that is still open."""


class NotFound(SendonceError):
    """Nothing has this id."""
