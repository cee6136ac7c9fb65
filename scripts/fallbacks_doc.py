"""Write the table of docs/fallbacks.md from the registry of fallbacks; with --check say whether it is current."""

from __future__ import annotations

import pathlib
import re
import sys

from framelift.fallbacks import FALLBACKS, Fallback

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "fallbacks.md"
BEGIN, END = "<!-- made by scripts/fallbacks_doc.py -->", "<!-- end -->"
HEAD = "| id | Python runs the call because | with `fullgraph=True` | remedy |\n|---|---|---|---|"


def page() -> str:
    """The page, with the table that the registry gives."""
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    rows = "\n".join(_row(fallback) for _, fallback in sorted(FALLBACKS.items()))
    return f"{before}{BEGIN}\n{HEAD}\n{rows}\n{END}{after}"


def _row(fallback: Fallback) -> str:
    text = re.sub(r"\{(\w+)\}", r"*{\1}*", fallback.text)
    return f"| {fallback.id} | {text} | {fallback.with_fullgraph} | {fallback.remedy} |"


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        current = PAGE.read_text() == page()
        if not current:
            print(f"{PAGE.name} is not current: run python scripts/fallbacks_doc.py", file=sys.stderr)
        return not current
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
