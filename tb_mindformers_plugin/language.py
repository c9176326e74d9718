"""Words in the languages that the product speaks, and numbers as people read them."""

from __future__ import annotations

import math
from typing import NamedTuple

#: Languages that findings, comparisons and the tab speak.
LANGUAGES = ("en", "zh")


class Text(NamedTuple):
    """The same words in English and in Simplified Chinese.

    >>> Text("a jump", "突跳").in_language("zh")
    '突跳'
    """

    en: str
    zh: str

    def in_language(self, language: str) -> str:
        """Returns the words in one of `LANGUAGES`."""
        return self.zh if language == "zh" else self.en


def percent(ratio: float) -> str:
    """A ratio to 1 as people say it: +12 %, ×3.4.

    >>> percent(1.12), percent(0.5), percent(3.4), percent(0.999)
    ('+12 %', '-50 %', '×3.4', '-0.1 %')
    """
    if ratio >= 3:
        return times(ratio)
    change = (ratio - 1) * 100
    return f"{change:+.0f} %" if abs(change) >= 1.5 else f"{change:+.1f} %"


def share(part: float) -> str:
    """A part of a whole as people say it.

    >>> share(0.5), share(0.00123), share(float("nan")), share(21.04), share(1e22)
    ('50 %', '0.123 %', 'n/a', '2,104 %', '1e+24 %')
    """
    if math.isnan(part):
        return "n/a"
    return f"{part * 100:,.0f} %" if 10 <= abs(part) < 1e4 else f"{part * 100:.3g} %"


def times(ratio: float) -> str:
    """A ratio as people say it.

    >>> times(3.44), times(123.4), times(1.1e11)
    ('×3.4', '×123', '×1.1e+11')
    """
    return f"×{ratio:.1f}" if ratio < 10 else f"×{ratio:,.0f}" if ratio < 1e6 else f"×{ratio:.2g}"


def number(value: float) -> str:
    """A value as people read it.

    >>> number(2.1988450527191162), number(65536.0), number(22583.4), number(1.5e-7)
    ('2.199', '65,536', '22,580', '1.5e-07')
    """
    if math.isfinite(value) and value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    if 1e4 <= abs(value) < 1e7:
        return f"{float(f'{value:.4g}'):,.0f}"
    return f"{value:.4g}"
