"""The settings of what is sent, and through what: networks, secrets, HTTP endpoints, mail and the long tail."""

from functools import partial

from sendonce.config import types
from sendonce.config.types import Setting

WAYS = ("smtp", "postmark", "resend")

_network = partial(Setting, table="network")
_secrets = partial(Setting, table="secrets")
_webhooks = partial(Setting, table="webhooks")
_http = partial(Setting, table="http", part="sendonce.channels.http.endpoint:HttpProfile")
_mail = partial(Setting, table="mail")
_smtp = partial(Setting, table="smtp", part="sendonce.channels.email.smtp_settings:SmtpSettings")
_postmark = partial(Setting, table="postmark", part="sendonce.channels.email.postmark:PostmarkSettings")
_resend = partial(Setting, table="resend", part="sendonce.channels.email.resend:ResendSettings")
_apprise = partial(Setting, table="apprise")

OUTSIDE = (
    _network(
        "allow",
        types.TEXTS,
        'Networks that may be dialled beside the public ones, like `["10.1.0.0/16", "::1/128"]`; in '
        "the variable with commas between them.",
        usual=(),
        variable="SENDONCE_ALLOW_NETWORKS",
        example='["10.1.0.0/16", "::1/128"]',
    ),
    _network(
        "name_servers",
        types.TEXTS,
        'Name servers that are asked for hosts of HTTP destinations, like `["10.0.0.53", "10.0.0.54:5353"]`; those of '
        "`/etc/resolv.conf` unless set. The hosts file goes before them.",
        usual=(),
        example='["10.0.0.53"]',
    ),
    _secrets(
        "keys",
        types.SECRETS,
        "Secret; keys that encrypt the subscriptions' secrets in the database: the first one seals, "
        "all of them open. Made by `sendonce new-key`; in the variable with commas between them.",
        variable="SENDONCE_SECRET_KEYS",
        example='[{ env = "SECRETS_KEY" }]',
    ),
    _webhooks(
        "secret",
        types.SIGNING,
        "Secret; signs requests to `http:` and `https:` destinations that belong to no subscription "
        "and no `[http.…]`; `whsec_` and base64. Without it they are not signed.",
        example='{ env = "WEBHOOK_SECRET" }',
    ),
    _http(
        "url",
        types.TEXT,
        "What the destinations begin with; ends with a slash.",
        example='"https://shop.example/jobs/"',
        is_required=True,
    ),
    _http(
        "bearer",
        types.SECRET,
        "Secret; sent as `Authorization: Bearer …`. A 401 is then our own fault: nothing is given up "
        "for it, and an alert is raised.",
        example='{ env = "SHOP_TOKEN" }',
    ),
    _http(
        "headers",
        types.HEADERS,
        "Names and values that are sent too; values may be secret.",
        example='{ X-Team = "shop" }',
    ),
    _http(
        "look_up",
        types.TEXT,
        "Where it can be asked about a message, with `{token}` in it: 200 with a JSON object, or 404.",
        example='"https://shop.example/deliveries/{token}"',
    ),
    _http("id_header", types.TEXT, "The header of its answer that holds its own id for a message.", example='"X-Id"'),
    _http(
        "id_field",
        types.TEXT,
        "The field of its JSON answer that holds it. Without both, `id` is read where it is there, "
        "and our token stands in for a missing one. With one of them and `look_up`, an answer without"
        " an id does not count as sent: it is looked up.",
        example='"id"',
    ),
    _http(
        "remembers",
        types.DURATION,
        "How long it can be asked about a message; for ever unless set. Needs `look_up`.",
        example='"7d"',
    ),
    _http(
        "certificate",
        types.SECRET,
        "Secret; a client certificate and its key, as PEM.",
        example='{ file = "client.pem" }',
    ),
    _http(
        "ca",
        types.SECRET,
        "The certificate authority to trust instead of the system's, as PEM.",
        example='{ file = "ca.pem" }',
    ),
    _http(
        "for_subscriptions",
        types.FLAG,
        "Also send what subscriptions have below `url` with the secrets of this table. Tenants choose the addresses of "
        "subscriptions, and see the answers: say true only where all of them are your own. Else such a subscription is "
        "a webhook like any other, with its own secrets alone, and is not looked up.",
    ),
    _http(
        "policy",
        types.POLICY,
        "Settings that go over those of `[policy]`.",
        example='{ max_attempts = 5, if_unsure = "hold" }',
    ),
    _mail(
        "through",
        types.choice(*WAYS),
        "Which of the tables below `mailto:` goes through. Where only one is there, it is that one.",
        usual=WAYS[0],
    ),
    _mail(
        "sender",
        types.TEXT,
        "Who mails are from when they do not say so themselves.",
        example='"Shop <shop@example.com>"',
        is_required=True,
    ),
    _smtp(
        "url",
        types.SECRET_ADDRESS,
        "`smtp://user@host:587` (STARTTLS), `smtps://…` (TLS), `smtp+plain://…` (no TLS). Secret when"
        " it holds a password.",
        part="",
        example='"smtp://shop:PASSWORD@mail.example.com:587"',
        is_required=True,
    ),
    _smtp("password", types.SECRET, "Secret; that of the url unless set.", example='{ env = "SMTP_PASSWORD" }'),
    _smtp("pool", types.WHOLE, "How many connections are kept open."),
    _smtp(
        "ca", types.FILE, "The certificate authority to trust instead of the system's.", example='{ file = "ca.pem" }'
    ),
    _postmark(
        "token", types.SECRET, "Secret; the server's token.", example='{ env = "POSTMARK_TOKEN" }', is_required=True
    ),
    _postmark("stream", types.TEXT, "The message stream."),
    _postmark("url", types.TEXT, "Another address of the API, for tests."),
    _postmark("remembers", types.DURATION, "The retention that is set at Postmark."),
    _resend(
        "key",
        types.SECRET,
        "Secret; an API key with full access, because mails are asked about too.",
        example='{ env = "RESEND_KEY" }',
        is_required=True,
    ),
    _resend("url", types.TEXT, "Another address of the API, for tests."),
    _apprise(
        "url",
        types.SECRET,
        "Secret; an Apprise URL with `{address}` in it, like `twilio://SID:TOKEN@FROM/{address}`.",
        is_required=True,
        example='{ env = "SMS_URL" }',
    ),
)
