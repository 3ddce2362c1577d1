"""A guess at the language of a text: by script, and by its commonest words where it has many languages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

_SMALL_WORDS = {
    "en": "the of and to in is that for it as was with be by on are this you have not or from at which can",
    "de": "der die und den das von zu mit sich des auf für ist im dem nicht ein eine als auch es an werden aus wird",
    "fr": "le la les de des et un une du en que est dans qui pour pas sur au par plus ce avec sont il vous",
    "es": "el la los las de que y en un una por con no para es se del al lo como más su o sus",
    "it": "il la di che e in un una per è non con del della sono le dei da si al nel gli come anche più",
    "pt": "o a os as de que e em um uma para com não do da no na por mais dos se ao é como das",
    "nl": "de het een van en in is dat op te voor met zijn die niet aan er om ook als bij door naar wordt",
    "pl": "i w na z do się nie że jest to o jak po co tak za od przez ale dla są lub oraz ze przy",
    "sv": "och i att det som en på är av för med till den inte har de ett om var jag kan från så vi",
}
_WORDS = {name: frozenset(words.split()) for name, words in _SMALL_WORDS.items()}
_LEAST_WORDS = 20
_LEAST_SHARE = 0.1  # of all words; ordinary prose has 0.25 to 0.45 of its language's list, lists of names next to none
_LEAD = 1.25  # Portuguese and Spanish share half of their lists
_SCRIPTS = {"Hangul": "ko", "Thai": "th", "Hebrew": "he", "Greek": "el", "Armenian": "hy", "Georgian": "ka"}
_MOST = 0.5
_KANA = 0.05


def guess_language(sample: str, scripts: Mapping[str, float]) -> str | None:
    """An ISO 639-1 code, or None where the text is short, mixed or of a language that is not known here.

    ``scripts`` are the shares of the letters by script; only their largest is looked at.
    """
    kana = scripts.get("Hiragana", 0.0) + scripts.get("Katakana", 0.0)
    if kana >= _KANA and kana + scripts.get("Han", 0.0) > _MOST:
        return "ja"
    if scripts.get("Han", 0.0) > _MOST:
        return "zh"
    for script, language in _SCRIPTS.items():
        if scripts.get(script, 0.0) > _MOST:
            return language
    if scripts.get("Latin", 0.0) <= _MOST:
        return None
    words = sample.lower().split()
    if len(words) < _LEAST_WORDS:
        return None
    counts = Counter(words)
    shares = sorted(
        ((sum(map(counts.__getitem__, known)) / len(words), name) for name, known in _WORDS.items()), reverse=True
    )
    (best, name), (second, _) = shares[:2]
    return name if best >= _LEAST_SHARE and best >= _LEAD * second else None
