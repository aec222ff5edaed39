r"""Names of character classes in regular expressions: `\p{Greek}`, `[:alpha:]` (go1.26's regexp/syntax and unicode)."""

from __future__ import annotations

# Go looks names up without "_", "-" and " ", so it never finds its own scripts whose name has a "_".
_SCRIPTS = """
    Adlam Ahom Arabic Armenian Avestan Balinese Bamum Batak Bengali Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid
    Carian Chakma Cham Cherokee Chorasmian Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Dogra
    Duployan Elbasan Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati Gurmukhi Han Hangul Hanunoo
    Hatran Hebrew Hiragana Inherited Javanese Kaithi Kannada Katakana Kawi Kharoshthi Khmer Khojki Khudawadi Lao
    Latin Lepcha Limbu Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen Medefaidrin Miao
    Modi Mongolian Mro Multani Myanmar Nabataean Nandinagari Newa Nko Nushu Ogham Oriya Osage Osmanya Palmyrene
    Phoenician Rejang Runic Samaritan Saurashtra Sharada Shavian Siddham Sinhala Sogdian Soyombo Sundanese Syriac
    Tagalog Tagbanwa Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Toto Ugaritic Vai
    Vithkuqi Wancho Yezidi Yi
"""
_CATEGORIES = """
    C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs
"""
_ALIASES = """
    Closepunctuation=Pe Combiningmark=M Connectorpunctuation=Pc Control=Cc Currencysymbol=Sc Dashpunctuation=Pd
    Decimalnumber=Nd Enclosingmark=Me Finalpunctuation=Pf Format=Cf Initialpunctuation=Pi Letter=L Letternumber=Nl
    Lineseparator=Zl Lowercaseletter=Ll Mark=M Mathsymbol=Sm Modifierletter=Lm Modifiersymbol=Sk Nonspacingmark=Mn
    Number=N Openpunctuation=Ps Other=C Otherletter=Lo Othernumber=No Otherpunctuation=Po Othersymbol=So
    Paragraphseparator=Zp Privateuse=Co Punctuation=P Separator=Z Spaceseparator=Zs Spacingmark=Mc Surrogate=Cs
    Symbol=S Titlecaseletter=Lt Uppercaseletter=Lu Cntrl=Cc Digit=Nd Punct=P
"""
_SPELLINGS = {name: name for name in f"{_SCRIPTS} {_CATEGORIES} Any".split()} | dict(
    alias.split("=") for alias in _ALIASES.split()
)
_POSIX = "alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit"

POSIX_CLASSES = frozenset([f"[:{name}:]" for name in _POSIX.split()] + [f"[:^{name}:]" for name in _POSIX.split()])


def unicode_class(name: str) -> str | None:
    r"""RE2's spelling of the name in `\p{name}`; None if there is no such class. A `^` before the name stays.

    Go's classes Assigned, ASCII, Cn and LC return None because RE2 lacks them.
    """
    negation, plain = ("^", name[1:]) if name.startswith("^") else ("", name)
    letters = "".join(letter for letter in plain if letter not in "_- ")
    canonical = letters[:1].upper() + letters[1:].lower() if letters.isascii() else letters
    spelled = _SPELLINGS.get(canonical)
    return None if spelled is None else negation + spelled
