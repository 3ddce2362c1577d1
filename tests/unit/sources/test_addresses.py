"""Which addresses are public."""

from __future__ import annotations

import pytest

from kbcore.sources.web.addresses import networks, refusal

NOT_PUBLIC = """
0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.100.100.200 127.0.0.1 127.255.255.254 168.63.129.16 169.254.169.254
172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.51.100.1
203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 :: ::1 ::127.0.0.1 ::10.0.0.1 ::ffff:127.0.0.1
::ffff:169.254.169.254 ::ffff:0:10.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::1 100::1 2001::1
2001:0:7f00:1:: 2001:db8::1 2001:10::1 2002:7f00:1:: 2002:a00:1:: 2002:a9fe:a9fe:: 3fff::1 5f00::1 fc00::1
fd00:ec2::254 fe80::1 fe80::1%eth0 fec0::1 ff02::1 2a00:1450::5efe:7f00:1 2a00:1450::200:5efe:a00:1
2001:0:808:808:0:0:80ff:fffe
""".split()  # noqa: SIM905


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert refusal(address)


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "93.184.216.34",
        "2a00:1450:4001::1",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2002:808:808::",
        "2606::1",
    ],
)
def test_a_public_address_is_not(address: str) -> None:
    assert refusal(address) is None


def test_a_private_address_is_reached_only_where_it_is_allowed() -> None:
    allowed = networks(["10.0.0.0/8", "127.0.0.1", "fd00::/8"])
    assert refusal("10.1.2.3", allowed) is None
    assert refusal("::ffff:10.1.2.3", allowed) is None
    assert refusal("fd00::1", allowed) is None
    assert refusal("127.0.0.2", allowed)
    assert refusal("169.254.169.254", allowed)
