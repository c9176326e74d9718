"""Names and messages as a terminal may be given them: a file name can hold anything."""

from __future__ import annotations

import json
import re
from typing import Any

from rich.markup import escape as escape_markup

# Control characters move the cursor, ring, change colours; line ends forge lines; bidirectional overrides turn what
# is written around; lone surrogates are bytes that are no UTF-8.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_SURROGATE = re.compile("[\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Returns `text` on one line, what a terminal would obey instead of showing it as an escape.

    >>> printable("run\x1b[31m\n 中文 [1]")
    'run\\x1b[31m\\n 中文 [1]'
    """
    return _UNPRINTABLE.sub(lambda match: match.group().encode("unicode_escape").decode("ascii"), text)


def json_line(content: Any, language: str) -> str:
    r"""Returns JSON on one line: in ASCII, but for Chinese, which is to be read as well.

    >>> json_line({"run": "bad\udcff", "message": "损失"}, "zh")
    '{"run": "bad\\udcff", "message": "损失"}'
    """
    text = json.dumps(content, allow_nan=False, ensure_ascii=language == "en")
    return _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def escape(text: str) -> str:
    """Returns `text` for a rich console, which prints it literally."""
    return escape_markup(printable(text))
