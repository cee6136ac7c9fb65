"""How much code there is: lines without blank ones, comments and docstrings, by folder.

python scripts/count_code.py            what src/framelift holds
python scripts/count_code.py --files    every file
"""

from __future__ import annotations

import argparse
import ast
import io
import pathlib
import re
import tokenize
from collections import Counter

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "src" / "framelift"
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_COMMENT_OR_TEXT = re.compile(r"""/\*.*?\*/|//[^\n]*|("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""", re.DOTALL)


def python_lines(text: str) -> int:
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def c_lines(text: str) -> int:
    without = _COMMENT_OR_TEXT.sub(lambda found: found[1] or "", text)
    return sum(bool(line.strip()) for line in without.splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", action="store_true")
    given = parser.parse_args()
    counted: dict[str, Counter[str]] = {"Python": Counter(), "C": Counter()}
    for language, suffixes, count in (("Python", {".py"}, python_lines), ("C", {".c", ".h"}, c_lines)):
        for path in sorted(SOURCE.rglob("*")):
            if path.suffix in suffixes:
                place = path.relative_to(SOURCE) if given.files else path.relative_to(SOURCE).parent
                counted[language][str(place)] += count(path.read_text())
    for language, places in counted.items():
        for place, lines in sorted(places.items()):
            print(f"{lines:7} {place}")
        print(f"{places.total():7} lines of {language}")


if __name__ == "__main__":
    main()
