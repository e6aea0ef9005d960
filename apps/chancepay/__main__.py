"""python -m apps.chancepay demo, reconcile, stream, queue: what is of both services."""

import sys

from apps.chancepay import queue, reconcile, stream
from apps.chancepay.demo import run

COMMANDS = {"demo": run.main, "reconcile": reconcile.main, "stream": stream.main, "queue": queue.main}

if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
    print(f"usage: python -m apps.chancepay {{{','.join(COMMANDS)}}} …", file=sys.stderr)
    sys.exit(2)
sys.exit(COMMANDS[sys.argv[1]](sys.argv[2:]))
