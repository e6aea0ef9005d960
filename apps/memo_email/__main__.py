"""Run it: python -m apps.memo_email."""

import sys

from apps.memo_email.api import build
from apps.memo_email.tables import MIGRATIONS
from apps.serving import main

sys.exit(main("memo_email", build, MIGRATIONS))
