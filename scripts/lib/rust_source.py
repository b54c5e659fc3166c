"""Reads Rust sources well enough to tell the product's lines from those of its tests.

`scripts/count` and `scripts/compare-tests` use it. It knows comments, strings, braces and `mod` declarations, no more:
a macro that declares modules or tests is not expanded.
"""

import re
from pathlib import Path

# Strings, characters and comments, in the order in which they have to be tried. A lifetime is not a character.
_TOKEN = re.compile(
    r"""(?P<line>//[^\n]*)
      | (?P<open>/\*)
      | (?P<raw>\bb?c?r(?P<hashes>\#*)"(?:.*?)"(?P=hashes))
      | (?P<text>\bb?c?"(?:\\.|[^"\\])*"|"(?:\\.|[^"\\])*")
      | (?P<char>b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\\n])')""",
    re.S | re.X,
)
_TEST_ONLY = r"#\[cfg\((?:test|all\(test\b[^]]*|any\(test\b[^]]*)\)\]"
_ATTRIBUTES = r"(?:\s*#\[(?:[^\[\]]|\[[^\]]*\])*\])*"
_TEST_MODULE = re.compile(
    _TEST_ONLY + r"(?P<attributes>" + _ATTRIBUTES + r")\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(?P<name>\w+)\s*(?P<end>[;{])"
)
_MODULE = re.compile(r"^[ \t]*(?:pub(?:\([^)]*\))?\s+)?mod\s+(?P<name>\w+)\s*;", re.M)
_PATH = re.compile(r'#\[path\s*=\s*"([^"]+)"\]')


def blanked(text, keep_strings=False):
    """Returns `text` at its old length with comments (and strings) replaced by spaces; line ends stay."""
    out, at = [], 0
    blank = lambda piece: re.sub(r"[^\n]", " ", piece)
    while match := _TOKEN.search(text, at):
        out.append(text[at : match.start()])
        at = match.end()
        if match["open"]:
            depth = 1
            while depth and (edge := re.compile(r"/\*|\*/").search(text, at)):
                depth += 1 if edge[0] == "/*" else -1
                at = edge.end()
            if depth:
                at = len(text)
            out.append(blank(text[match.start() : at]))
        elif keep_strings and not match["line"]:
            out.append(match[0])
        else:
            out.append(blank(match[0]))
    out.append(text[at:])
    return "".join(out)


def block_end(code, open_brace):
    """Returns the index behind the brace that closes the one at `open_brace` of blanked `code`."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(code, open_brace):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return len(code)


def sources(root, *directories):
    """Returns the Rust files below `directories` of the checkout, relative to it, without build output."""
    found = []
    for directory in directories:
        for path in sorted((root / directory).rglob("*.rs")):
            relative = path.relative_to(root)
            if "target" not in relative.parts:
                found.append(relative)
    return found


def declared(file, name, path_attribute=None):
    """Returns the two files that `mod name;` in `file` may mean."""
    here = file.parent
    if path_attribute:
        return [here / path_attribute]
    if file.name not in ("mod.rs", "lib.rs", "main.rs"):
        here = here / file.stem
    return [here / f"{name}.rs", here / name / "mod.rs"]


class Tree:
    """The Rust files of a checkout: which of them are tests, and where test modules stand inside the others."""

    def __init__(self, root, *directories):
        self.root = Path(root)
        self.files = sources(self.root, *directories)
        self.text = {file: (self.root / file).read_text(encoding="utf-8") for file in self.files}
        self.code = {file: blanked(text) for file, text in self.text.items()}
        self.test_blocks = {file: [] for file in self.files}
        self.test_files = set()
        todo = []
        for file in self.files:
            code = self.code[file]
            if re.match(r"\s*#!\[cfg\(test\)\]", code):
                todo.append(file)
            for module in _TEST_MODULE.finditer(code):
                if module["end"] == "{":
                    end = block_end(code, module.end() - 1)
                    self.test_blocks[file].append((module.start(), end))
                else:
                    source = self.text[file][module.start("attributes") : module.end("attributes")]
                    path = _PATH.search(source)
                    todo += declared(file, module["name"], path and path[1])
        while todo:
            file = todo.pop()
            if file in self.code and file not in self.test_files:
                self.test_files.add(file)
                for module in _MODULE.finditer(self.code[file]):
                    todo += declared(file, module["name"])

    def product(self, file):
        """Returns the text of `file` without its test modules; empty for a file of tests."""
        if file in self.test_files:
            return ""
        return without(self.text[file], self.test_blocks[file])

    def product_code(self, file):
        """Like `product`, with comments and strings blanked."""
        if file in self.test_files:
            return ""
        return without(self.code[file], self.test_blocks[file])


def without(text, blocks):
    """Returns `text` without the lines of `blocks`."""
    out, at = [], 0
    for start, end in sorted(blocks):
        if start < at:
            continue
        out.append(text[at:start].rstrip(" \t"))
        at = end
        if text.startswith("\n", at):
            at += 1
    out.append(text[at:])
    return "".join(out)


# Macros, and the methods of `tests/harness` that panic if the outcome differs.
ASSERTION = re.compile(
    r"\b(?:prop_)?assert(?:_\w+)?!"
    r"|\bpanic!|\bunreachable!"
    r"|\.(?:status|stdout|stderr|stdout_has|stderr_has|stderr_lacks|stderr_lines|inert|script_used_up)\("
)

_TEST = re.compile(
    r"#\[(?:tokio::)?test(?:\([^\]]*\))?\]" + _ATTRIBUTES + r"\s*(?:pub(?:\([^)]*\))?\s+)?(?:async\s+)?fn\s+(?P<name>\w+)"
)


def tests(code):
    """Yields name and body of each test function of blanked `code`."""
    for match in _TEST.finditer(code):
        brace = code.find("{", match.end())
        if brace >= 0:
            yield match["name"], code[brace : block_end(code, brace)]
