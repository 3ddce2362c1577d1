"""Office files and books written by hand, for tests: small containers of XML."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_SPACES = (
    f'xmlns:w="{W}" xmlns:r="{_OFFICE}" xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" xmlns:v="urn:schemas-microsoft-com:vml" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"'
)
_CORE = (
    '<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/">{}</cp:coreProperties>'
)
STYLES = (
    f'<w:styles xmlns:w="{W}">'
    '<w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="berschrift2"><w:name w:val="heading 2"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Chapter"><w:name w:val="Chapter"/><w:basedOn w:val="berschrift2"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Outlined"><w:name w:val="x"/><w:pPr><w:outlineLvl w:val="2"/></w:pPr></w:style>'
    '<w:style w:type="paragraph" w:styleId="Loop"><w:name w:val="y"/><w:basedOn w:val="Loop"/></w:style>'
    "</w:styles>"
)
NUMBERING = (
    f'<w:numbering xmlns:w="{W}"><w:abstractNum w:abstractNumId="0">'
    '<w:lvl w:ilvl="0"><w:numFmt w:val="decimal"/></w:lvl><w:lvl w:ilvl="1"><w:numFmt w:val="bullet"/></w:lvl>'
    '</w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num></w:numbering>'
)


def zipped(members: Mapping[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as target:
        for name, body in members.items():
            target.writestr(name, body)
    return out.getvalue()


def relations(*related: tuple[str, str], mode: str = "Internal") -> str:
    """A part of relationships rId1, rId2 ...: (last word of the type, target) each."""
    items = "".join(
        f'<Relationship Id="rId{n}" Type="{_OFFICE}/{kind}" Target="{target}" TargetMode="{mode}"/>'
        for n, (kind, target) in enumerate(related, 1)
    )
    return (
        f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{items}</Relationships>'
    )


def p(text: str, style: str = "", properties: str = "") -> str:
    named = f'<w:pStyle w:val="{style}"/>' if style else ""
    return f"<w:p><w:pPr>{named}{properties}</w:pPr>{r(text)}</w:p>"


def r(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


def item(text: str, level: int = 0) -> str:
    return p(text, properties=f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="1"/></w:numPr>')


def table(*rows: tuple[str, ...]) -> str:
    """Cells that do not begin with ``<`` are words."""
    body = "".join(
        "<w:tr>" + "".join(f"<w:tc>{cell if cell.startswith('<') else p(cell)}</w:tc>" for cell in row) + "</w:tr>"
        for row in rows
    )
    return f"<w:tbl>{body}</w:tbl>"


def docx_of(
    body: str, *, core: str = "", footnotes: str = "", document_relations: str = "", **members: str | bytes
) -> bytes:
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>',
        "_rels/.rels": relations(("officeDocument", "word/document.xml")),
        "word/document.xml": f"<w:document {_SPACES}><w:body>{body}</w:body></w:document>",
        "word/_rels/document.xml.rels": document_relations
        or relations(("styles", "styles.xml"), ("numbering", "numbering.xml"), ("footnotes", "footnotes.xml")),
        "word/styles.xml": STYLES,
        "word/numbering.xml": NUMBERING,
        "docProps/core.xml": _CORE.format(core),
    }
    if footnotes:
        parts["word/footnotes.xml"] = f"<w:footnotes {_SPACES}>{footnotes}</w:footnotes>"
    return zipped({**parts, **members})


CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles>'
    '<rootfile full-path="OPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)


def epub_of(chapters: Mapping[str, str], *, metadata: str = "", manifest: str = "", **members: str | bytes) -> bytes:
    """A book of chapters in their order: href to the content of the body, or a whole page."""
    items = "".join(
        f'<item id="c{n}" href="{href}" media-type="application/xhtml+xml"/>' for n, href in enumerate(chapters)
    )
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    pages = {
        f"OPS/{href}": body
        if body.startswith("<?xml")
        else f'<html xmlns="http://www.w3.org/1999/xhtml"><head><title>Book</title></head><body>{body}</body></html>'
        for href, body in chapters.items()
    }
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": CONTAINER,
            "OPS/book.opf": '<package xmlns="http://www.idpf.org/2007/opf" version="3.0">'
            f'<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">{metadata}</metadata>'
            f"<manifest>{items}{manifest}</manifest><spine>{spine}</spine></package>",
            **pages,
            **members,
        },
        zipfile.ZIP_STORED,
    )


def with_false_sizes(data: bytes, size: int) -> bytes:
    """The container with another uncompressed size in each header, as a bomb would say it."""
    out = bytearray(data)
    for mark, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = out.find(mark)
        while at >= 0:
            struct.pack_into("<I", out, at + place, size)
            at = out.find(mark, at + 4)
    return bytes(out)
