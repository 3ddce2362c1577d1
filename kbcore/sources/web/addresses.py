"""Which network addresses a source may connect to: public ones, and private ones that its configuration allows.

An IPv6 address may carry an IPv4 address; what counts is the address that is reached in the end. Nothing rests on
``is_global`` of the standard library, whose answer differs between releases of Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# The special-purpose registry of IANA, multicast, and the address at which one cloud serves its machines' secrets.
_NOT_PUBLIC_4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
    )
)
_GLOBAL_UNICAST_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))

_MAPPED = IPv6Network("::ffff:0:0/96")
_COMPATIBLE = IPv6Network("::/96")
_TRANSLATED = IPv6Network("::ffff:0:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR = IPv6Network("2002::/16")
_TEREDO = IPv6Network("2001::/32")
_ISATAP = (0x00005EFE, 0x02005EFE)


def networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Networks such as ``10.0.0.0/8`` or ``127.0.0.1``. ValueError for what is none."""
    return tuple(ip_network(text, strict=False) for text in texts)


def refusal(text: str, allowed: Sequence[Network] = ()) -> str | None:
    """Why nothing may be sent to this address, or None where it may."""
    try:
        address = ip_address(text)
    except ValueError:
        return f"{text} is not an address"
    for reached in unwrapped(address):
        if not is_public(reached) and not any(reached in network for network in allowed):
            through = f" (as {address})" if reached != address else ""
            return f"{reached}{through} is not a public address"
    return None


def is_public(address: Address) -> bool:
    """True for an unwrapped address of the public internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    inside = address in _GLOBAL_UNICAST_6 and address.scope_id is None
    return inside and not any(address in network for network in _NOT_PUBLIC_6)


def unwrapped(address: Address) -> list[Address]:
    """The addresses that a packet to ``address`` may end at: those it carries, or itself where it carries none."""
    if isinstance(address, IPv4Address):
        return [address]
    number = int(address)
    low = IPv4Address(number & 0xFFFFFFFF)
    if (address in _COMPATIBLE and number > 1) or any(address in n for n in (_MAPPED, _TRANSLATED, _NAT64)):
        return [low]
    if address in _SIX_TO_FOUR:
        return [IPv4Address((number >> 80) & 0xFFFFFFFF)]
    if address in _TEREDO:
        return [IPv4Address((number >> 64) & 0xFFFFFFFF), IPv4Address(~number & 0xFFFFFFFF)]
    if (number >> 32) & 0xFFFFFFFF in _ISATAP:
        return [low, address]
    return [address]
