"""Runs the application: python -m apps.review_notifications."""

import sys
from pathlib import Path

from apps.review_notifications.api import build
from apps.serving import main

sys.exit(main("review_notifications", build, Path(__file__).parent / "migrations"))
