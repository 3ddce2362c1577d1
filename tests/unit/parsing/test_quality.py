"""Figures of parsed texts, and flags: garbage has one, ordinary text of any kind and language has none."""

from __future__ import annotations

import json
import time
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from kbcore.errors import DocumentError
from kbcore.parsing import ParseLimits, ParserPool, media_type_of
from kbcore.parsing.child import parse
from kbcore.parsing.media import HTML, MARKDOWN, PDF, TEXT
from kbcore.parsing.quality import FLAGS, LETTER_LIKENESS, figures, flags_of
from kbcore.sql import query
from kbcore.types import Parsed
from tests.support import SHARED, knowledge_base, refreshed

ENGLISH = (
    "Every password is reset at the self-service page and must have fourteen characters. When it does not answer, "
)
ENGLISH += "call the service desk, and have your staff number ready: nobody may change it without. Printing works with "
ENGLISH += "the badge on every floor; a lost badge is blocked by the same desk within minutes after your call.\n"
GERMAN = (
    "Das Kennwort wird auf der Seite für die Selbstbedienung zurückgesetzt und muss vierzehn Zeichen haben. Größere "
)
GERMAN += (
    "Änderungen führt die Leitstelle aus, „mit viel Spaß“, wie sie sagt, und nicht ohne die Überprüfung der Nummer."
)
ORDINARY = {
    "en": ENGLISH,
    "de": GERMAN,
    "fr": "Le mot de passe est réinitialisé sur la page du libre-service et doit avoir quatorze caractères. Où que vous "
    "soyez, appelez le bureau d’aide : les numéros sont affichés près des ascenseurs, à côté de l’entrée.",
    "es": "¿Qué hacer si la contraseña no funciona? ¡Llame al servicio! La contraseña se restablece en la página del "
    "autoservicio y debe tener catorce caracteres, como la de los demás, por lo que se cambia con el número.",
    "pl": "Hasło zmienia się na stronie i musi mieć czternaście znaków, a jeśli to nie działa, należy zadzwonić do działu "
    "obsługi i podać numer, bo bez niego nikt nie może się zalogować ani zmienić go za kogoś w tym samym dniu.",
    "ja": "パスワードはセルフサービスのページで再設定します。Windowsのログイン画面から開くこともできます。"
    "紛失した社員証はすぐに停止してください。",
    "zh": "请在门户网站重置密码。系统将发送郵件到您的邮箱，"
    "如果没有收到，请联系服务台并准备好您的员工号码。打印机在每层楼都可以使用。",
    "ko": "비밀번호는 셀프서비스 페이지에서 재설정하며 열네 글자 이상이어야 합니다. 분실한 배지는 바로 정지해 주십시오.",
    "th": "รหัสผ่านจะถูกตั้งใหม่ในหน้าบริการตนเองและต้องมีอย่างน้อยสิบสี่ตัวอักษร หากไม่ตอบกรุณาโทรหาฝ่ายบริการ",
    "he": "הסיסמה מאופסת בדף השירות העצמי וחייבת להכיל ארבעה עשר תווים. אם אין תשובה, התקשרו אל מוקד השירות.",
    "el": "Ο κωδικός αλλάζει στη σελίδα αυτοεξυπηρέτησης και πρέπει να έχει δεκατέσσερις χαρακτήρες, όπως όλοι.",
}
UNGUESSED = {
    "vi": "Mật khẩu được đặt lại tại trang tự phục vụ và phải có mười bốn ký tự. Nếu không được, hãy gọi cho bộ phận.",
    "cs": "Příliš žluťoučký kůň úpěl ďábelské ódy. Heslo se mění na stránce a musí mít čtrnáct znaků, příští týden též.",
    "ru": "Пароль сбрасывается на странице самообслуживания и должен содержать четырнадцать знаков. РОССИЯ, СССР.",
    "ar": "تتم إعادة تعيين كلمة المرور في صفحة الخدمة الذاتية ويجب أن تتكون من أربعة عشر حرفًا على الأقل.",
    "hi": "पासवर्ड स्वयं सेवा पृष्ठ पर रीसेट किया जाता है और उसमें चौदह वर्ण होने चाहिए। यदि उत्तर न मिले तो फ़ोन करें।",
    "formulas": "The angle α is 5 µm, Δt = 3 s, ½ of 20 °C ± 2 %, x² ≤ √2; Foo®, Bar™ and 5 £ or 10 €, § 5 «so» ☐ yes.",
    "fullwidth": "Ｏｐｔｉｍｉｚａｔｉｏｎ ｏｆ ｗａｔｅｒ ｅｘｔｒａｃｔｉｏｎ "
    "ａｎｄ ｏｆ ｈｅａｔ ｉｎ ａ ｐｕｍｐ ｔｈａｔ ｗｏｒｋｓ",
}


def of(
    text: str, media_type: str = TEXT, pages: tuple[int, ...] = (), data: bytes = b"", **stats: Any
) -> dict[str, Any]:
    return figures(Parsed(text, "a", media_type, "x-1", pages=pages, stats=stats), data)


class TestFigures:
    def test_counts_are_of_the_whole_text(self) -> None:
        found = of("Two words\n\nTwo words\nand a considerably longer line 12\n\ufffd\ue000\x02")
        assert (found["words"], found["lines"], found["words_per_line"]) == (11, 4, 2.75)
        assert (found["longest_word"], found["repeated_line_share"]) == (12, 0.25)
        assert (found["replacement_characters"], found["language_guess"]) == (1, None)
        visible = len("TwowordsTwowordsandaconsiderablylongerline12") + 3
        assert found["control_share"] == found["private_use_share"] == round(1 / visible, 4)
        assert (found["digit_share"], found["letter_share"]) == (
            round(2 / visible, 4),
            round((visible - 5) / visible, 4),
        )
        assert found["scripts"] == {"Latin": 1.0}

    def test_pages_are_counted_with_those_that_are_empty(self) -> None:
        found = of("abc d\n\n\n\nef", PDF, (0, 7, 9))
        assert (found["pages"], found["empty_pages"], found["characters_per_page"]) == (3, 1, 2.0)
        assert "pages" not in of("abc d")

    def test_an_empty_text_has_figures_too(self) -> None:
        assert of("")["flags"] == []

    def test_glyph_names_count_in_pdfs_and_paths_elsewhere_do_not(self) -> None:
        assert of("(cid:12)(cid:3) /g12/g140/g3/g4", PDF, (0,))["unmapped_glyphs"] == 6
        assert of("/g12/g140/g3/g4", MARKDOWN)["unmapped_glyphs"] == 0
        assert of("see /usr/lib/python3/x or 1/12/05/2024", PDF, (0,))["unmapped_glyphs"] == 0

    def test_the_figures_of_endless_text_take_seconds_at_most(self) -> None:
        started = time.process_time()
        for text in (
            "word and more " * 400_000,
            "請在門戶網站重置密碼。\n" * 200_000,
            "Ã©Ã" * 500_000,
            "/g1" * 500_000,
        ):
            of(text, PDF, (0,))
        assert time.process_time() - started < 8

    @pytest.mark.parametrize("language", list(ORDINARY))
    def test_the_language_of_a_few_sentences_is_guessed(self, language: str) -> None:
        assert of(ORDINARY[language])["language_guess"] == language

    def test_no_language_is_guessed_where_there_is_little_to_go_by(self) -> None:
        assert of("The of and to.")["language_guess"] is None
        assert of("Alpha Beta 12 Gamma Delta Epsilon " * 9)["language_guess"] is None


FRENCH = (
    "Ouvrez «\xa0Sécurité\xa0», puis «\xa0Confidentialité\xa0»\xa0: l’accès est bloqué\xa0– ou refusé\xa0… Un écran "
)
FRENCH += "de 1920\xa0×\xa01080 est exigé\xa0; le câble (Ø\xa05 mm) est fourni. Cliquez à droite de «\xa0Activé\xa0»."


VIETNAMESE = (
    "Để đặt lại mật khẩu, hãy mở trang tự phục vụ và nhập số nhân viên của bạn. Mật khẩu mới phải có ít nhất mười bốn "
    "ký tự và được thay đổi mỗi năm. Nếu trang không trả lời, hãy gọi cho bộ phận hỗ trợ và chuẩn bị sẵn mã số. Máy in hoạt "
    "động với thẻ ở mỗi tầng; thẻ bị mất sẽ được khóa trong vòng vài phút sau cuộc gọi. Không ai được phép đổi mật khẩu của "
    "người khác nếu không có sự đồng ý bằng văn bản. Kết nối mạng riêng ảo chỉ dùng được khi máy tính đã cập nhật."
)


class TestFlags:
    def test_vietnamese_is_not_garbled(self) -> None:
        for text in (VIETNAMESE, unicodedata.normalize("NFD", VIETNAMESE)):
            assert of(text, PDF, (0,))["flags"] == []
            assert of(text * 20, PDF, (0,))["flags"] == []
        assert of(VIETNAMESE, PDF, (0,))["letter_likeness"] >= LETTER_LIKENESS

    def test_french_spaces_before_signs_are_no_mojibake(self) -> None:
        for repeats in (1, 20):
            assert of((FRENCH + "\n") * repeats)["flags"] == []
            assert "mojibake" in of(FRENCH.encode().decode("latin-1") * repeats)["flags"]
            assert "mojibake" in of(FRENCH.replace("\xa0", " ").encode().decode("cp1252") * repeats)["flags"]
        assert of("Allez \xc3\xa0 la page, \xc3\xa0 droite, \xc3\xa0 gauche.")["flags"] == ["mojibake"]

    @pytest.mark.parametrize("media_type", [TEXT, PDF])
    @pytest.mark.parametrize("language", [*ORDINARY, *UNGUESSED])
    def test_ordinary_text_has_none(self, language: str, media_type: str) -> None:
        text = (ORDINARY | UNGUESSED)[language]
        for repeats in (1, 20):
            found = of((text + "\n") * repeats, media_type, (0,))
            assert (found["flags"], found.get("flag")) == ([], None)

    @pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
    @pytest.mark.parametrize(
        "text", [GERMAN, ORDINARY["fr"], ORDINARY["pl"], UNGUESSED["ru"]], ids=["de", "fr", "pl", "ru"]
    )
    def test_utf8_read_as_an_encoding_of_one_byte_is_mojibake(self, text: str, encoding: str) -> None:
        wrong = text.encode().decode(encoding, "ignore")
        assert "mojibake" in of(wrong * 3)["flags"]
        assert "read as another encoding" in of(wrong * 3)["flag"]

    def test_english_with_only_its_quotes_wrong_is_mojibake_and_a_page_about_one_is_not(self) -> None:
        assert "mojibake" in of(ENGLISH.replace(" the ", " the â€œ") * 9)["flags"]
        assert of(ENGLISH + "The name CafÃ© means that UTF-8 was read as cp1252.")["flags"] == []

    @pytest.mark.parametrize(("encoding", "read_as"), [("cp1251", "latin-1"), ("gbk", "latin-1"), ("utf-8", "cp1251")])
    def test_other_wrong_encodings_are_flagged(self, encoding: str, read_as: str) -> None:
        text = ORDINARY["zh"] if encoding == "gbk" else UNGUESSED["ru"]
        assert of(text.encode(encoding, "ignore").decode(read_as, "ignore"))["flags"]

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("abc\ufffd\ufffd def " * 20, "out of place"),
            ("\ue001\ue002\ue003 a " * 20, "out of place"),
            ("a\x01\x02\x03b " * 20, "out of place"),
            ("(YHU\\\x03SDVVZRUG\x03LV\x03UHVHW " * 9, "out of place"),
            ("/g18/g152/g135/g148 /g152/g139/g135/g153", "out of place"),
            ("ɹɹংΘͨ͘͠ͱ͍;ݱ၊ఆ͞Εͨ༗ަػྲྀి౯ͷͻͱͭͷ੨͍র໌", "out of place"),
            ("컒쏇뚼쫇뫚쳥ퟖ컒쏇뚼쫇뫚쳥ퟖ컒쏇뚼쫇뫚쳥ퟖ", "out of place"),
            ("%&/ 1234 )(=? " * 20, "letters"),
            ("anordinarysentencewithoutanyblanksbetweenitswords " * 20, "not separated"),
            (" ".join(ENGLISH), "taken apart"),
            ("".join(chr((ord(c) - 96) % 26 + 97) if c.isalpha() else c for c in ENGLISH.lower()), "no language"),
        ],
    )
    def test_garbage_of_a_pdf_says_why(self, text: str, reason: str) -> None:
        found = of(text, PDF, (0,))
        assert found["flags"] == ["garbled"]
        assert reason in found["flag"]

    def test_tables_of_figures_and_tables_of_contents_are_no_garbage(self) -> None:
        for text in ("12,345.60 | 7.5 % | 2024 | x | " * 30, ("1.2 Errors" + " ." * 60 + " 17\n") * 20):
            assert of(text, PDF, (0,))["flags"] == []

    def test_code_and_data_that_are_no_pdf_may_look_like_anything(self) -> None:
        assert of("0101110 {}[]();== " * 30, MARKDOWN)["flags"] == []
        assert of("QmFzZTY0" * 40, MARKDOWN)["flags"] == []

    def test_pages_without_text_and_pages_that_are_pictures(self) -> None:
        found = of("Words\n\n\n\n", PDF, (0, 7, 9), image_pages=2)
        assert found["flags"] == ["no_text_layer", "mostly_empty_pages"]
        assert found["flag"] == "2 of 3 pages are pictures: needs OCR; 2 of 3 pages have no text layer"

    def test_a_download_that_was_cut_off(self) -> None:
        assert of("Words", PDF, (0,), b"%PDF-1.4 ... endobj")["flags"] == ["truncated"]
        assert of("Words", PDF, (0,), b"%PDF-1.4 ... %%EOF\r\n" + b"\0" * 4000)["flags"] == []
        head = b"%PDF-1.4\n1 0 obj\n<< /Linearized 1 /L 9000 /O 5 >>\nendobj\n"
        assert "has 9,000 bytes" in of("Words", PDF, (0,), head + b"%%EOF")["flag"]
        assert of("Words", PDF, (0,), head + b" " * 9000 + b"%%EOF")["flags"] == []
        assert of("Words", HTML, (), b"<p>Words</p><a href='x")["flags"] == ["truncated"]
        assert of("Words", HTML, (), b"<p>Words, 3 < 4")["flags"] == []

    def test_what_the_parser_said_stays(self) -> None:
        assert of("Words", flag="front matter is never closed")["flag"] == "front matter is never closed"

    def test_flags_are_read_from_stored_figures_in_one_order(self) -> None:
        assert flags_of({"flags": ["truncated", "mojibake", "unheard of"]}) == ("mojibake", "truncated")
        assert flags_of({}) == flags_of({"flags": None}) == ()
        assert set(flags_of({"flags": list(FLAGS)})) == set(FLAGS)


class TestStored:
    def test_the_child_adds_them_to_every_format(self) -> None:
        with ParserPool() as pool:
            for name, data in (("a.md", b"# Title\n\nWords."), ("a.txt", b"Words"), ("a.html", b"<p>Some words</p>")):
                parsed = pool.parse(name, data)
                assert (parsed.stats["flags"], parsed.stats["characters"]) == ([], len(parsed.text))
                assert parsed.stats["encoding"]

    def test_sql_finds_the_flagged_documents(self, tmp_path: Path) -> None:
        base = knowledge_base(
            tmp_path, {"good.txt": ENGLISH, "bad.txt": GERMAN.encode().decode("cp1252", "ignore") * 3}
        )
        refreshed(base)

        def ask(statement: str) -> list[tuple[Any, ...]]:
            return query(base.repository, "current", statement).rows

        where = "json_array_length(stats, '$.flags') > 0"
        found = ask(f"SELECT uri, json_extract(stats, '$.flags') FROM documents WHERE {where}")
        assert [(uri, json.loads(flags)) for uri, flags in found] == [("bad.txt", ["mojibake"])]
        share = "CAST(json_extract(stats, '$.mojibake_share') AS DOUBLE)"
        assert ask(f"SELECT uri FROM documents WHERE {share} > 0.002") == [("bad.txt",)]


@pytest.mark.data
@pytest.mark.skipif(not SHARED.exists(), reason="the real data is not here")
class TestRealFiles:
    @pytest.mark.parametrize("collection", ["nesi-support-docs", "microsoft-wsl"])
    def test_documentation_has_no_flag(self, collection: str) -> None:
        releases = sorted(path for path in (SHARED / "docs" / collection).iterdir() if path.is_dir())
        seen = 0
        for path in sorted(releases[-1].rglob("*.md")):
            answer = parse(path.name, MARKDOWN, path.read_bytes(), ParseLimits())
            if "ok" in answer:
                seen += 1
                assert answer["ok"]["stats"]["flags"] == [], path.name
        assert seen > 20

    def test_of_the_odd_files_the_one_with_wrong_dashes_is_flagged(self) -> None:
        flagged = {}
        for path in sorted(p for p in (SHARED / "odd").rglob("*") if p.is_file()):
            data = path.read_bytes()
            media_type = media_type_of(path.name, data[:1024])
            if media_type in (TEXT, MARKDOWN, HTML) and "ok" in (
                answer := parse(path.name, media_type, data, ParseLimits())
            ):
                flagged[path.name] = answer["ok"]["stats"]["flags"]
        assert {name: flags for name, flags in flagged.items() if flags} == {"norwich-city.txt": ["mojibake"]}
        assert len(flagged) > 20


def test_a_failure_stays_a_failure() -> None:
    with ParserPool() as pool, pytest.raises(DocumentError):
        pool.parse("a.pdf", b"%PDF-1.7 broken")
