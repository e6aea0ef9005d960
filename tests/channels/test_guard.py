"""Which addresses may be dialled: decided on the address itself, in every disguise."""

from collections.abc import AsyncIterator
from ipaddress import IPv6Address, ip_address

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from sendonce.channels.http.client import Forbidden, HttpAnswer, HttpClient
from sendonce.channels.http.dial import Names, Resolver
from sendonce.channels.http.guard import ForbiddenAddress, ForbiddenName, Guard, is_a_number
from sendonce.errors import ConfigError
from tests.attack.dns import NameServer, name_server
from tests.channels.sending import Seen
from tests.channels.troubles import HOST, raw_server

CLOSED = Guard()

FORBIDDEN = {
    "loopback": ["127.0.0.1", "127.255.255.254", "::1"],
    "private": ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fd12:3456::1"],
    "link-local and metadata": ["169.254.169.254", "169.254.0.1", "fe80::1", "fe80::1%lo", "febf::1", "fd00:ec2::254"],
    "shared by a carrier": ["100.64.0.1", "100.100.100.200", "100.127.255.255"],
    "unspecified, this network, broadcast": [str(ip_address(0)), "0.1.2.3", "255.255.255.255", "::"],
    "multicast": ["224.0.0.1", "239.255.255.250", "ff02::1", "ff0e::1"],
    "reserved": ["240.0.0.1", "192.0.0.1", "192.0.0.170", "192.88.99.1", "198.18.0.1", "198.19.255.255"],
    "documentation": ["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"],
    "IPv4 in IPv6": [
        "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1", "::127.0.0.1", "::a00:1",
        "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::10.0.0.1", "2002:7f00:1::", "2002:a9fe:a9fe::1",
        "2001:0:7f00:1::", "2001::f5ff:fffe",
    ],
    "not global": ["fec0::1", "100::1", "5f00::1", "4000::1", "1::1", "2001:10::1", "2001:2::1"],
    "not an address": ["", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.", "1.2.3.4/32"],
}  # fmt: skip


@pytest.mark.parametrize("host", [host for hosts in FORBIDDEN.values() for host in hosts])
def test_address_that_is_not_public_is_refused(host: str) -> None:
    assert not CLOSED.allows(host)
    with pytest.raises(ForbiddenAddress, match="SENDONCE_ALLOW_NETWORKS"):
        CLOSED.check(host)


@pytest.mark.parametrize(
    "host",
    ["1.1.1.1", "8.8.8.8", "93.184.216.34", "172.32.0.1", "100.63.255.255", "100.128.0.1", "223.255.255.255",
     "2606:4700::1111", "2a00:1450:4001:81b::200e", "64:ff9b::1.1.1.1", "::ffff:8.8.8.8"],
)  # fmt: skip
def test_address_that_is_public_is_allowed(host: str) -> None:
    assert CLOSED.allows(host)


@given(st.ip_addresses(v=4))
def test_ipv4_address_in_an_ipv6_one_is_judged_as_itself(address: object) -> None:
    number = int(ip_address(str(address)))

    for prefix in ("::ffff:0:0", "64:ff9b::"):
        assert CLOSED.allows(str(IPv6Address(int(IPv6Address(prefix)) | number))) == CLOSED.allows(str(address))
    for prefix, shift in (("::", 0), ("2002::", 80), ("2001::", 0)):
        assert not CLOSED.allows(str(IPv6Address(int(IPv6Address(prefix)) | number << shift)))


class TestOpening:
    def test_operator_opens_networks(self) -> None:
        guard = Guard.parse(" 127.0.0.0/8, ::1/128,10.1.2.3 ,")

        assert [guard.allows(host) for host in ("127.9.9.9", "::1", "10.1.2.3", "::ffff:127.0.0.1")] == [True] * 4
        assert [guard.allows(host) for host in ("10.1.2.4", "::2", "192.168.0.1", "169.254.169.254")] == [False] * 4
        assert guard.allows("1.1.1.1")

    @pytest.mark.parametrize(
        ("network", "host", "other"),
        [
            ("64:ff9b::/96", "64:ff9b::10.1.2.3", "10.1.2.3"),
            ("::ffff:10.1.0.0/112", "::ffff:10.1.2.3", "::ffff:10.2.2.3"),
            ("10.1.0.0/16", "64:ff9b::10.1.2.3", "64:ff9b::10.2.2.3"),
            ("10.1.0.0/16", "::ffff:10.1.2.3", "::ffff:10.2.2.3"),
        ],
    )
    def test_ipv4_address_in_an_ipv6_one_is_opened_as_either(self, network: str, host: str, other: str) -> None:
        guard = Guard.parse(network)

        assert guard.allows(host)
        assert not guard.allows(other)

    def test_networks_are_read_from_the_environment(self) -> None:
        assert Guard.from_environment({"SENDONCE_ALLOW_NETWORKS": "192.168.0.0/16"}).allows("192.168.3.4")
        assert not Guard.from_environment({}).allows("192.168.3.4")

    @pytest.mark.parametrize("text", ["localhost", "127.0.0.1/33", "127.0.0.1/8", "10.0.0.0/8;::1/128", "*"])
    def test_mistake_is_named(self, text: str) -> None:
        with pytest.raises(ConfigError) as caught:
            Guard.from_environment({"SENDONCE_ALLOW_NETWORKS": text})

        assert str(caught.value).startswith("SENDONCE_ALLOW_NETWORKS holds networks with commas between them: ")
        assert f"{text!r} is not a network; write it like 1" in str(caught.value)

    def test_address_with_the_length_of_its_network_is_corrected(self) -> None:
        with pytest.raises(ConfigError, match=r"write it like 127\.0\.0\.0/8$"):
            Guard.parse("127.0.0.1/8")


@pytest.mark.parametrize(
    ("host", "is_one"),
    [
        ("2130706433", True), ("0x7f000001", True), ("0x7f.1", True), ("127.1", True), ("0177.0.0.1", True),
        ("127.0.0.1", True), ("127.0.0.1.", True), ("1.0x", True), ("a.0X7F", True),
        ("example.com", False), ("1and1.com", False), ("10.example", False), ("0x7f.example.", False), ("x0", False),
    ],
)  # fmt: skip
def test_hosts_that_are_numbers(host: str, is_one: bool) -> None:
    assert is_a_number(host) is is_one


@pytest_asyncio.fixture
async def names() -> AsyncIterator[NameServer]:
    async with name_server() as server:
        yield server


@pytest_asyncio.fixture
async def resolver(names: NameServer) -> AsyncIterator[Resolver]:
    resolver = Resolver(CLOSED, Names([names.address]))
    yield resolver
    await resolver.close()


class TestNames:
    async def test_name_gives_only_what_may_be_dialled(self, names: NameServer, resolver: Resolver) -> None:
        names.says("both.example", ["10.0.0.1", "1.1.1.1", "::1", "2606:4700::1111"])

        found = await resolver.resolve("both.example", 443)

        assert {each["host"] for each in found} == {"1.1.1.1", "2606:4700::1111"}
        assert {(each["hostname"], each["port"]) for each in found} == {("both.example", 443)}

    async def test_name_that_leads_inside_is_refused(self, names: NameServer, resolver: Resolver) -> None:
        names.says("metadata.example", ["169.254.169.254"])

        with pytest.raises(ForbiddenName):
            await resolver.resolve("metadata.example", 80)

    async def test_name_that_changes_is_vetted_each_time(self, names: NameServer, resolver: Resolver) -> None:
        names.says("rebinding.example", ["1.1.1.1"], ["127.0.0.1"])

        await resolver.resolve("rebinding.example", 80)
        with pytest.raises(ForbiddenName):
            await resolver.resolve("rebinding.example", 80)

        assert names.asked == ["rebinding.example"] * 2


class TestDialling:
    """With a server that would be reached: nothing of a request may arrive there."""

    @pytest_asyncio.fixture
    async def closed(self) -> AsyncIterator[HttpClient]:
        client = HttpClient(CLOSED)
        yield client
        await client.close()

    @pytest.mark.parametrize(
        "host",
        ["127.0.0.1", "localhost", "2130706433", "017700000001", "0x7f000001", "0177.0.0.1", "0x7f.0.0.1", "0x7f.1",
         "127.1", "127.0.1", "127.0.0.1.", "0.0.0", "0", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]",
         "①②⑦.⓪.⓪.①", "127。0。0。1", "127%2e0%2e0%2e1"],
    )  # fmt: skip
    async def test_address_reaches_this_machine_in_no_spelling(self, closed: HttpClient, host: str) -> None:
        seen = Seen()
        async with raw_server(seen.connected) as port:
            answered = await closed.request("POST", f"http://{host}:{port}/", body=b"{}", headers={}, timeout=30)

        assert not isinstance(answered, HttpAnswer)
        assert seen.connections == 0

    @pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1", "127.1"])
    async def test_numbers_are_refused_even_where_the_network_is_open(self, host: str) -> None:
        client, seen = HttpClient(Guard.parse("127.0.0.0/8")), Seen()
        async with raw_server(seen.connected) as port:
            answered = await client.request("POST", f"http://{host}:{port}/", body=b"{}", headers={}, timeout=30)
        await client.close()

        assert isinstance(answered, Forbidden)
        assert seen.connections == 0

    async def test_name_that_turns_inside_between_look_and_dial_is_not_dialled(
        self, closed: HttpClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def unvetted(self: Resolver, host: str, port: int = 0, family: int = 0) -> list[dict[str, object]]:
            return [{"hostname": host, "host": HOST, "port": port, "family": 2, "proto": 0, "flags": 0}]

        monkeypatch.setattr(Resolver, "resolve", unvetted)
        seen = Seen()
        async with raw_server(seen.connected) as port:
            answered = await closed.request("POST", f"http://hook.example:{port}/", body=b"", headers={}, timeout=30)

        assert isinstance(answered, Forbidden)
        assert seen.connections == 0

    @pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
    async def test_redirect_is_not_followed(self, status: str) -> None:
        inner = Seen()
        client = HttpClient(Guard.parse("127.0.0.0/8"))
        async with raw_server(inner.connected) as inside:
            head = f"HTTP/1.1 {status}\r\nLocation: http://{HOST}:{inside}/\r\nContent-Length: 0\r\n\r\n"
            async with raw_server(Seen(head.encode()).connected) as port:
                answered = await client.request("POST", f"http://{HOST}:{port}/", body=b"{}", headers={}, timeout=30)
        await client.close()

        assert isinstance(answered, HttpAnswer)
        assert answered.status == int(status[:3])
        assert inner.connections == 0

    async def test_proxy_of_the_environment_is_not_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        proxy, seen = Seen(), Seen()
        client = HttpClient(Guard.parse("127.0.0.0/8"))
        async with raw_server(proxy.connected) as proxy_port, raw_server(seen.connected) as port:
            for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
                monkeypatch.setenv(name, f"http://{HOST}:{proxy_port}")
            await client.request("POST", f"http://{HOST}:{port}/", body=b"{}", headers={}, timeout=30)
        await client.close()

        assert (proxy.connections, seen.connections) == (0, 1)

    @pytest.mark.parametrize(
        "url", ["http+unix://%2Ftmp%2Fsock/", "unix:///tmp/sock", "file:///etc/passwd", "ftp://a/"]
    )
    async def test_scheme_other_than_http_is_not_dialled(self, closed: HttpClient, url: str) -> None:
        assert isinstance(await closed.request("POST", url, body=b"", headers={}, timeout=30), Forbidden)
