"""Write docs/graph-breaks.md from the registry of graph breaks; with --check say whether it is current."""

from __future__ import annotations

import pathlib
import re
import sys

from framelift.breaks import REGISTRY, Reason

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "graph-breaks.md"

HEAD = """\
# Graph breaks

Why a capture may end early, and what to do about it. What was captured so far runs as a graph, the rest of the frame
runs in Python, and the result is right all the same. `framelift.explain(fn)(*args)` and `FRAMELIFT_LOGS=graph_breaks`
show the breaks of a program with their lines; `fullgraph=True` makes each an error, but for an exception that leaves
the function, which its caller gets. Ids are stable and never reused. A word in braces stands for what the program at
hand had there.

This page is made from `src/framelift/breaks.py` by `python scripts/graph_breaks_doc.py`.
"""

GROUPS = {
    "01": "Instructions and calls",
    "02": "Objects and protocols",
    "03": "Tensors",
    "04": "Exceptions",
}


def page() -> str:
    parts = [HEAD]
    for number, title in GROUPS.items():
        reasons = [reason for id, reason in sorted(REGISTRY.items()) if id.startswith(f"FL{number}")]
        rows = "\n".join(_row(reason) for reason in reasons)
        parts.append(f"\n## {title}\n\n| id | reason | remedy |\n|---|---|---|\n{rows}\n")
    return "".join(parts)


def _row(reason: Reason) -> str:
    text = re.sub(r"\{(\w+)\}", r"*{\1}*", reason.text)
    return f"| {reason.id} | {text} | {reason.remedy} |"


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        current = PAGE.exists() and PAGE.read_text() == page()
        if not current:
            print(f"{PAGE.name} is not current: run python scripts/graph_breaks_doc.py", file=sys.stderr)
        return not current
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
