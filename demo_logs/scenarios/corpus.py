"""Text to learn from: the docstrings of the Python standard library that runs this."""

from __future__ import annotations

import ast
import sysconfig
from pathlib import Path
from typing import Iterator

import numpy as np

CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))  # printable ASCII: 96 characters


def read_corpus(characters: int) -> np.ndarray:
    """Returns the first `characters` of the docstrings as codes 0..95 (int32), in the order of the files' names."""
    code = {character: index for index, character in enumerate(CHARACTERS)}
    codes: list[int] = []
    for text in _docstrings():
        codes.extend(code[character] for character in text if character in code)
        codes.append(code["\n"])
        if len(codes) >= characters:
            break
    return np.asarray(codes[:characters], dtype=np.int32)


def windows(corpus: np.ndarray, count: int, length: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns `count` random windows of `length` characters and the character after each of theirs.

    Both arrays are int32 [count, length].
    """
    starts = np.random.RandomState(seed).randint(0, len(corpus) - length, count)
    index = starts[:, None] + np.arange(length)
    return corpus[index], corpus[index + 1]


def _docstrings() -> Iterator[str]:
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                text = ast.get_docstring(node)
                if text:
                    yield text
