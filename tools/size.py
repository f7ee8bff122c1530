#!/usr/bin/env python3
"""Lines per folder, the biggest files and functions, and the budget: smallness is measured, golf is refused.

Fails when a file has more than 800 lines, a function more than 60, or the C++ glue more than its share.
Tables (.def, .inc), tests and generated documents are not counted against the limits.
"""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys

FILE_LINES, FUNCTION_LINES = 800, 60
BUDGET = {"core": 30000, "glue": 2600, "python": 4000}
CODE = {".c", ".h", ".cpp", ".py"}


def files() -> list[pathlib.Path]:
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    return [p for p in map(pathlib.Path, names) if p.suffix in CODE and p.is_file()]


def is_test(path: pathlib.Path) -> bool:
    return path.parts[0] == "tests" or path.stem.endswith("_test")


def c_functions(lines: list[str]) -> list[tuple[int, str]]:
    """(lines, name) of each function: from its first line at column 0 to its "}" there."""
    found, start = [], None
    for i, line in enumerate(lines):
        if (
            re.match(r"[A-Za-z_].*[({,]$|[A-Za-z_].*\)\s*\{.*$", line)
            and start is None
            and not line.startswith("namespace")
        ):
            start = i
        elif line.startswith("}") and start is not None:
            head = " ".join(lines[start : start + 4])
            name = re.search(r"([A-Za-z_][A-Za-z0-9_]*)\s*\(", head)
            is_code = (
                not re.match(r"(typedef |static const |const |enum |struct |extern )", lines[start]) and name
            )
            if is_code and not line.startswith("};"):
                found.append((i - start + 1, name.group(1) if name else "?"))
            start = None
        elif line.endswith(";") and line[:1] not in ("", " ", "}", "\t") and start is not None:
            start = None
    return found


def python_functions(text: str) -> list[tuple[int, str]]:
    return [
        ((node.end_lineno or node.lineno) - node.lineno + 1, node.name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
    ]


def main() -> int:
    folders: dict[str, int] = {}
    sizes: list[tuple[int, str]] = []
    functions: list[tuple[int, str]] = []
    for path in files():
        text = path.read_text()
        lines = text.splitlines()
        where = (
            path.parts[0]
            if path.parts[0] != "core"
            else "/".join(path.parts[:2] if len(path.parts) > 2 else path.parts[:1])
        )
        folders[where + (" (tests)" if is_test(path) and path.parts[0] != "tests" else "")] = folders.get(
            where + (" (tests)" if is_test(path) and path.parts[0] != "tests" else ""), 0
        ) + len(lines)
        if is_test(path):
            continue
        sizes.append((len(lines), str(path)))
        found = python_functions(text) if path.suffix == ".py" else c_functions(lines)
        functions += [(n, f"{path}: {name}") for n, name in found]

    for where in sorted(folders):
        print(f"{folders[where]:7}  {where}")
    print(f"{sum(folders.values()):7}  all\n")
    for title, items in (("biggest files", sizes), ("biggest functions", functions)):
        print(title)
        for n, name in sorted(items, reverse=True)[:8]:
            print(f"{n:7}  {name}")

    problems = [f"{name} has {n} lines (at most {FILE_LINES})" for n, name in sizes if n > FILE_LINES]
    problems += [
        f"{name} has {n} lines (at most {FUNCTION_LINES})" for n, name in functions if n > FUNCTION_LINES
    ]
    for folder, most in BUDGET.items():
        total = sum(n for n, name in sizes if name.startswith(folder + "/"))
        if total > most:
            problems.append(f"{folder}/ has {total} lines (its budget is {most})")
    for problem in problems:
        print("TOO BIG", problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
