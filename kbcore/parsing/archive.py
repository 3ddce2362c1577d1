"""A foreign ZIP container held in memory: bounded while it is inflated, never extracted to disk, never followed outward.

DOCX, PPTX, XLSX and EPUB are such containers. A container that breaks a bound is refused as a whole: DocumentError with
the reason and, where there is one, what to do about it.
"""

from __future__ import annotations

import io
import posixpath
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from lxml import etree

from kbcore.errors import DocumentError
from kbcore.parsing.limits import MB
from kbcore.parsing.plaintext import clean

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
MEMBERS = 10_000
MEMBER_BYTES = 100 * MB
TOTAL_BYTES = 200 * MB
_DIRECTORY_BYTES = 5 * MB
_READ_BYTES = 1 << 18
_END_BYTES = 70_000  # the end record and its comment stand within these
_WIDE = "<QQ"
_ENDS = ((b"PK\x06\x06", 32, _WIDE), (b"PK\x05\x06", 10, "<HI"))  # mark; where and how count and bytes stand
_CONTENT_TYPES = "[Content_Types].xml"
_XML = (".xml", ".rels", ".opf", ".ncx")
_OF_BOOKS = (".opf", ".ncx")
_PLAIN_DOCTYPE = re.compile(rb"<!DOCTYPE[^<>\[]{0,400}>")
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w{1,40})/")


class Archive:
    """The members of a container by name, ``/`` between folders. What is read is counted over all reads."""

    def __init__(self, data: bytes, kind: str) -> None:
        """``kind`` names the format in reasons, such as ``DOCX``."""
        self.kind = kind
        self._left = TOTAL_BYTES
        _refuse_other_containers(data, kind)
        _refuse_long_directory(data)
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, EOFError) as exc:
            raise DocumentError(
                f"not a readable {kind}: its ZIP container is damaged or cut off ({said(exc)})"
            ) from exc
        self._members: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            name = info.filename.replace("\\", "/")
            if name in self._members:
                raise DocumentError(f"two members of its ZIP container have the same name ({name[:80]!r})")
            self._members[name] = info
        if len(self._members) > MEMBERS:
            raise DocumentError(f"more than {MEMBERS:,} members in its ZIP container")
        self._lowered = {name.lower(): name for name in reversed(self._members)}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._members)

    def find(self, name: str) -> str | None:
        """The member of that name, whatever its case (names of parts are equal without regard to case)."""
        return name if name in self._members else self._lowered.get(name.lower())

    def read(self, name: str, *, as_page: bool = False) -> bytes:
        """The bytes of a member, inflated within the bounds. XML of the format has no DOCTYPE and no strict names.

        ``as_page`` leaves a page of a book as it is: HTML has a DOCTYPE, and its parser takes no notice of it.
        """
        found = self.find(name)
        if found is None:
            raise DocumentError(f"not a readable {self.kind}: {name} is missing in it")
        info = self._members[found]
        if info.flag_bits & 1:
            raise DocumentError(f"{found} is encrypted in its ZIP container: save it without a password")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DocumentError(f"{found} is compressed by a method that {self.kind} does not have")
        data = self._inflated(info)
        return _checked(data, found) if found.lower().endswith(_XML) and not as_page else data

    def _inflated(self, info: zipfile.ZipInfo) -> bytes:
        parts: list[bytes] = []
        size = 0
        try:
            with self._zip.open(info) as source:
                while part := source.read(_READ_BYTES):
                    size += len(part)
                    self._left -= len(part)
                    if size > MEMBER_BYTES or self._left < 0:
                        which = f"{info.filename[:80]} inflates" if size > MEMBER_BYTES else "its members inflate"
                        most = MEMBER_BYTES if size > MEMBER_BYTES else TOTAL_BYTES
                        raise DocumentError(f"{which} to more than {most // MB} MB")
                    parts.append(part)
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            OSError,
            ValueError,
            NotImplementedError,
            RuntimeError,
        ) as exc:
            raise DocumentError(f"{info.filename[:80]} cannot be read from its ZIP container: {said(exc)}") from exc
        return b"".join(parts)

    def xml(self, name: str, *, as_page: bool = False) -> Any:
        """The root element of a member that is XML. ``as_page`` allows the plain DOCTYPE that pages of books have."""
        data = self.read(name, as_page=as_page)
        return parse_xml(_PLAIN_DOCTYPE.sub(b"", data, count=1) if as_page else data, name)

    def related(self, part: str) -> dict[str, Relation]:
        """The relationships of a part ("" for the package) by id, without those that lead outside of the container."""
        folder, base = posixpath.split(part)
        path = self.find(posixpath.join(folder, "_rels", base + ".rels"))
        found: dict[str, Relation] = {}
        for element in self.xml(path) if path else ():
            target = element.get("Target", "")
            if element.get("TargetMode") == "External" or not target:
                continue
            full = posixpath.normpath(posixpath.join("/", folder, unquote(target.split("#", 1)[0])))
            found[element.get("Id", "")] = Relation(element.get("Type", "").rsplit("/", 1)[-1], full.lstrip("/"))
        return found

    def repacked(self, replaced: Mapping[str, bytes] | None = None) -> io.BytesIO:
        """The container anew, for a library that opens it itself: XML checked and stored, all other members empty."""
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as target:
            for name in self._members:
                if name.endswith("/"):
                    continue
                body = (replaced or {}).get(name)
                if body is None:
                    body = self.read(name) if name.lower().endswith(_XML) else b""
                target.writestr(_CONTENT_TYPES if name.lower() == _CONTENT_TYPES.lower() else name, body)
        out.seek(0)
        return out


@dataclass(frozen=True, slots=True)
class Relation:
    """``kind`` is the last word of its type, such as ``footnotes``; ``target`` the name of a member."""

    kind: str
    target: str


def pack(members: Mapping[str, bytes]) -> io.BytesIO:
    """A new container of the given members, stored."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        for name, body in members.items():
            target.writestr(name, body)
    out.seek(0)
    return out


def parse_xml(data: bytes, name: str) -> Any:
    """The root element of XML bytes: no DTD, no entities, nothing fetched, at most 256 levels deep."""
    parser = etree.XMLParser(
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as exc:
        raise DocumentError(f"{name} is not readable XML: {said(exc)}") from exc
    if root.getroottree().docinfo.internalDTD is not None:
        raise DocumentError(f"{name} has a DOCTYPE")
    return root


def local(element: Any) -> str:
    """The name of an element without its namespace, "" for what is none (an entity)."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def below(element: Any, *names: str) -> Iterator[Any]:
    """The descendants (and the element itself) of these local names, in the order of the document."""
    tags: Iterable[str] = [f"{{*}}{name}" for name in names]
    return iter(element.iter(*tags))


def said(exc: BaseException) -> str:
    """An exception as a short reason on one line."""
    words = " ".join(clean(str(exc)).split())
    return f"{type(exc).__name__}: {words}"[:200] if words else type(exc).__name__


@contextmanager
def reading(kind: str) -> Iterator[None]:
    """Whatever a library raises over a document becomes a DocumentError that says so; exhaustion stays what it is."""
    try:
        yield
    except (DocumentError, MemoryError, RecursionError):
        raise
    except Exception as exc:
        raise DocumentError(f"not a readable {kind}: {said(exc)}") from exc


def _checked(data: bytes, name: str) -> bytes:
    bare = data.replace(b"\0", b"") if b"\0" in data[:64] else data  # UTF-16 is allowed
    if name.lower().endswith(_OF_BOOKS):  # old books name a DTD that is not needed
        data = bare = _PLAIN_DOCTYPE.sub(b"", bare, count=1)
    if b"<!DOCTYPE" in bare:
        raise DocumentError(f"{name} has a DOCTYPE")
    if bare[:64].lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")[:1] != b"<":
        raise DocumentError(f"{name} is not XML")
    if b"purl.oclc.org/ooxml" in bare:
        # "Strict" files differ in the names of their namespaces only, and libraries know but the usual ones.
        return _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", bare)
    return data


def _refuse_other_containers(data: bytes, kind: str) -> None:
    if data.startswith(OLE):
        if "EncryptedPackage".encode("utf-16-le") in data:
            raise DocumentError("needs a password: save it without one")
        ending = {"DOCX": ".doc", "XLSX": ".xls", "PPTX": ".ppt"}.get(kind, "binary")
        raise DocumentError(f"an old binary Office file ({ending}): save it as {kind}")
    if not data:
        raise DocumentError("the file is empty (0 bytes)")
    if not data.startswith(b"PK"):
        raise DocumentError(f"not a {kind}: it is no ZIP container")


def _refuse_long_directory(data: bytes) -> None:
    """Refuse before the directory is read: an entry takes 46 bytes of the file, and far more in memory."""
    for mark, place, form in _ENDS:
        start = data.rfind(mark, max(0, len(data) - _END_BYTES))
        if start < 0 or start + place + struct.calcsize(form) > len(data):
            continue
        count, length = struct.unpack_from(form, data, start + place)
        if count > MEMBERS and (form == _WIDE or count != 0xFFFF):
            raise DocumentError(f"more than {MEMBERS:,} members in its ZIP container")
        if length > _DIRECTORY_BYTES and (form == _WIDE or length != 0xFFFFFFFF):
            raise DocumentError(f"the directory of its ZIP container is longer than {_DIRECTORY_BYTES // MB} MB")
