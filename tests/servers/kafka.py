"""Kafka as librdkafka's mock cluster, out of confluent-kafka's wheel: real TCP on loopback, in a process of its own.

It has topics, partitions, groups and the errors that it is told to give; it keeps nothing, and knows no user.

    the test ──{"do": "topic", …}──▶ stdin │ python -m tests.servers.kafka │ stdout ──{"bootstrap": …}──▶ the test
"""

import ctypes
import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from tests.processes import ROOT, SECONDS

PRODUCE = 0
_PRODUCER = 0


class Kafka:
    """A mock cluster. Ends with its block, and also when the process that made it dies: its input is closed then."""

    def __init__(self, brokers: int = 3) -> None:
        self._brokers = brokers

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.servers.kafka", str(self._brokers)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, start_new_session=True,
        )  # fmt: skip
        self.bootstrap = str(self._read())
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=SECONDS)

    def topic(self, name: str, partitions: int = 3) -> str:
        """Make a topic, on every broker."""
        self._do("topic", name=name, partitions=partitions)
        return name

    def fail(self, *codes: int, request: int = PRODUCE) -> None:
        """Answer the next requests of this kind with these errors, one each."""
        self._do("fail", codes=codes, request=request)

    def break_topic(self, name: str, code: int) -> None:
        """Answer every question about this topic with an error; 0 ends it."""
        self._do("break_topic", name=name, code=code)

    def down(self, *brokers: int) -> None:
        """Close these brokers' connections, and take no more; all of them when none is named."""
        self._do("down", brokers=brokers or self._all())

    def up(self, *brokers: int) -> None:
        self._do("up", brokers=brokers or self._all())

    def slow(self, milliseconds: int) -> None:
        """Let every answer take so long."""
        self._do("slow", milliseconds=milliseconds, brokers=self._all())

    def lead(self, topic: str, partition: int, broker: int) -> None:
        """Make a broker the leader of a partition."""
        self._do("lead", topic=topic, partition=partition, broker=broker)

    def _all(self) -> Sequence[int]:
        return range(1, self._brokers + 1)

    def _do(self, what: str, **values: Any) -> None:
        assert self._process.stdin is not None
        plain = {key: list(value) if isinstance(value, tuple | range) else value for key, value in values.items()}
        self._process.stdin.write(json.dumps({"do": what, **plain}) + "\n")
        self._process.stdin.flush()
        answer = self._read()
        assert answer == 0, f"the mock cluster answered {what} with error {answer}"

    def _read(self) -> object:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the mock cluster has ended"
        return json.loads(line)


class _Cluster:
    """librdkafka's functions on one cluster. Each gives an error number."""

    def __init__(self, brokers: int) -> None:
        self._library = ctypes.CDLL(str(_library()))
        why = ctypes.create_string_buffer(512)
        conf = self._called("rd_kafka_conf_new", pointer=True)
        self._client = self._called("rd_kafka_new", _PRODUCER, ctypes.c_void_p(conf), why, 512, pointer=True)
        if not self._client:
            raise RuntimeError(why.value.decode())
        made = self._called("rd_kafka_mock_cluster_new", ctypes.c_void_p(self._client), brokers, pointer=True)
        self._cluster = ctypes.c_void_p(made)
        # A new group does not wait for long for further members.
        self._called("rd_kafka_mock_group_initial_rebalance_delay_ms", self._cluster, 100)

    @property
    def bootstrap(self) -> str:
        function = self._library.rd_kafka_mock_cluster_bootstraps
        function.restype = ctypes.c_char_p
        return bytes(function(self._cluster)).decode()

    def topic(self, name: str, partitions: int) -> int:
        return self._called("rd_kafka_mock_topic_create", self._cluster, name.encode(), partitions, 1)

    def fail(self, codes: Sequence[int], request: int) -> int:
        array = (ctypes.c_int * len(codes))(*codes)
        name = "rd_kafka_mock_push_request_errors_array"
        self._called(name, self._cluster, ctypes.c_int16(request), ctypes.c_size_t(len(codes)), array)
        return 0

    def break_topic(self, name: str, code: int) -> int:
        self._called("rd_kafka_mock_topic_set_error", self._cluster, name.encode(), code)
        return 0

    def down(self, brokers: Sequence[int]) -> int:
        return max(self._called("rd_kafka_mock_broker_set_down", self._cluster, each) for each in brokers)

    def up(self, brokers: Sequence[int]) -> int:
        return max(self._called("rd_kafka_mock_broker_set_up", self._cluster, each) for each in brokers)

    def slow(self, milliseconds: int, brokers: Sequence[int]) -> int:
        name = "rd_kafka_mock_broker_set_rtt"
        return max(self._called(name, self._cluster, each, milliseconds) for each in brokers)

    def lead(self, topic: str, partition: int, broker: int) -> int:
        name = "rd_kafka_mock_partition_set_leader"
        return self._called(name, self._cluster, topic.encode(), partition, broker)

    def _called(self, name: str, *arguments: Any, pointer: bool = False) -> int:
        function = getattr(self._library, name)
        function.restype = ctypes.c_void_p if pointer else ctypes.c_int
        return int(function(*arguments) or 0)


def _library() -> Path:
    spec = find_spec("confluent_kafka")
    assert spec is not None
    assert spec.origin is not None
    [found] = Path(spec.origin).parent.with_name("confluent_kafka.libs").glob("librdkafka*.so*")
    return found


def serve(brokers: int) -> None:
    """Do what the lines of the input say, until it is closed."""
    cluster = _Cluster(brokers)
    print(json.dumps(cluster.bootstrap), flush=True)
    for line in sys.stdin:
        values = json.loads(line)
        print(getattr(cluster, values.pop("do"))(**values), flush=True)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
