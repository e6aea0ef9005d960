"""Run it: python -m apps.webhooks."""

import sys

from apps.serving import main
from apps.webhooks.api import build
from apps.webhooks.keys import MIGRATIONS

sys.exit(main("webhooks", build, MIGRATIONS))
