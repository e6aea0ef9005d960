"""Every way to write an address that must not be dialled. Pure; the lists are made, not typed."""

# ruff: noqa: RUF001 — letters that look like others are the point here

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address

LOOPBACK = "127.0.0.1"
INSIDE = (
    LOOPBACK,
    "10.0.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "169.254.169.254",  # metadata of most clouds
    "100.100.100.200",  # of Alibaba's
    "192.0.0.192",  # of Oracle's
    "168.63.129.16",  # of Azure's, though it looks public
    "100.64.0.1",
    str(IPv4Address(0)),
    "224.0.0.1",
    "255.255.255.255",
    "240.0.0.1",
    "198.18.0.1",
    "192.0.2.1",
    "203.0.113.9",
)
_FULL_WIDTH = str.maketrans("0123456789.", "０１２３４５６７８９．")
_CIRCLED = str.maketrans("0123456789", "⓪①②③④⑤⑥⑦⑧⑨")


def of_v4(address: str) -> Iterator[str]:
    """The spellings of an IPv4 address that some program somewhere understands."""
    number = int(IPv4Address(address))
    a, b, c, d = IPv4Address(address).packed
    yield address
    yield f"{address}."
    yield str(number)
    yield f"{number:#x}"
    yield f"{number:#X}"
    yield f"0{number:o}"
    yield f"{a}.{number & 0xFFFFFF}"
    yield f"{a}.{b}.{number & 0xFFFF}"
    yield f"{a:#x}.{b:#x}.{c:#x}.{d:#x}"
    yield f"0{a:o}.0{b:o}.0{c:o}.0{d:o}"
    yield f"{a:#x}.{b}.0{c:o}.{d}"
    yield f"{a:#x}.{number & 0xFFFFFF}"
    yield f"{a:03}.{b:03}.{c:03}.{d:03}"
    yield f"{number + 2**32}"
    for dot in "．。｡":
        yield address.replace(".", dot)
    yield address.translate(_FULL_WIDTH)
    yield address.translate(_CIRCLED)
    yield address.replace(".", "%2e")
    yield "".join(f"%{ord(each):02x}" for each in address)
    yield f"{address}%00.good.example"
    yield f"{address}\N{SOFT HYPHEN}"


def in_v6(address: str) -> Iterator[str]:
    """The IPv6 addresses within which an IPv4 address is reached."""
    number = int(IPv4Address(address))
    v6 = [
        IPv6Address(0xFFFF << 32 | number),  # mapped
        IPv6Address(0xFFFF << 48 | number),  # translated
        IPv6Address(int(IPv6Address("64:ff9b::")) | number),  # NAT64
        IPv6Address(int(IPv6Address("64:ff9b:1::")) | number),  # NAT64 of one's own
        IPv6Address(int(IPv6Address("2002::")) | number << 80),  # 6to4
        IPv6Address(int(IPv6Address("2001::")) | number ^ 0xFFFFFFFF),  # Teredo's client
        IPv6Address(int(IPv6Address("2001::")) | number << 64),  # Teredo's server
        IPv6Address(int(IPv6Address("fe80::5efe:0:0")) | number),  # ISATAP
        IPv6Address(int(IPv6Address("2a00:1450:4001:81b:0:5efe::")) | number),
        IPv6Address(int(IPv6Address("2a00:1450:4001:81b:200:5efe::")) | number),
    ]
    if number:
        v6.append(IPv6Address(number))  # compatible
    for each in v6:
        yield each.compressed
        yield each.exploded.upper()
    yield f"::ffff:{address}"
    yield f"::FFFF:{address}%lo"
    yield f"::ffff:{address}%25lo"


V6 = (
    "::1", "0:0:0:0:0:0:0:1", "0000::0001", "::", "::1%lo", "::1%25lo", "fe80::1", "fe80::1%lo", "FE80::1%25eth0",
    "fc00::1", "fd00:ec2::254", "fd20:ce::254", "fec0::1", "ff02::1", "ff0e::1", "100::1", "2001:db8::1", "3fff::1",
    "5f00::1", "2001:10::1", "2001:20::1", "4000::1",
)  # fmt: skip


def around(host: str) -> Iterator[str]:
    """URLs in which programs find different hosts."""
    good = "good.example"
    yield f"http://{host}/"
    yield f"HTTP://{host}/"
    yield f"http://{host}:/"
    yield f"http://{host}:080/"
    yield f"http://{host}:80:80/"
    yield f"http://{host}:0/"
    yield f"http://{host}:65536/"
    yield f"http://{good}@{host}/"
    yield f"http://{good}:pass@{host}/"
    yield f"http://@{host}/"
    yield f"http://{host}#@{good}/"
    yield f"http://{host}?@{good}/"
    yield f"http://{good}\\@{host}/"
    yield f"http://{host}\\@{good}/"
    yield f"http://{host}\\.{good}/"
    yield f"http:\\\\{host}\\"
    yield f"http:/{host}/"
    yield f"http:{host}/"
    yield f"http:///{host}/"
    yield f"http:////{host}/"
    yield f"http://{good} @{host}/"
    yield f"http://{good}\t@{host}/"
    yield f"http://{good}\n@{host}/"
    yield f"http://{host}\x00.{good}/"
    yield f"http://{good}%40{host}/"
    yield f"http://{good}%2f@{host}/"
    yield f"http://{good},{host}/"
    yield f"http://{good};@{host}/"
    yield f"http://[{host}]/"
    yield f"http://[::ffff:{host}]/"
    yield f"http://[v1.{host}]/"
    yield f"http://[::1]{host}/"
    yield f"http://{host}[::1]/"
    yield f"http://{host}\N{FULLWIDTH SOLIDUS}.{good}/"
    yield f"http://{good}\N{FULLWIDTH COMMERCIAL AT}{host}/"
    yield f"http://{good}\N{FULLWIDTH NUMBER SIGN}@{host}/"
    yield f"http://{host}\N{IDEOGRAPHIC FULL STOP}/"
    yield f"http://..{host}/"
    yield f"http://.{host}/"
    yield f"//{host}/"
    yield f"http+unix://{host}/"
    yield f"gopher://{host}/"


NAMES_OF_THIS_MACHINE = (
    "localhost",
    "LOCALHOST",
    "LocalHost.",
    "localhost.localdomain",
    "ｌocalhost",
    "loc\N{SOFT HYPHEN}alhost",
)
EMPTY = (
    "http://",
    "http:///",
    "http://:80/",
    "http://@/",
    "http://?",
    "http://#",
    "http://./",
    "http://%00/",
    "http://[]/",
    "http://%20/",
)
