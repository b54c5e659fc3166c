"""One tool for the Editor's model: the notes that people left in the code."""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.tool import Failure_BadArguments, Failure_UnknownTool, Outcome
from wit_world.imports import read


def arguments(text):
    try:
        given = json.loads(text or "{}")
    except ValueError as error:
        raise Err(Failure_BadArguments(str(error)))
    if not isinstance(given, dict) or set(given) - {"glob"}:
        raise Err(Failure_BadArguments("an object with nothing but `glob` was expected"))
    if not isinstance(given.get("glob", ""), str):
        raise Err(Failure_BadArguments("glob: a text was expected"))
    return given.get("glob")


def notes(glob):
    wanted = read.Pattern(regex=r"\b(TODO|FIXME|XXX)\b", ignore_case=False, multi_line=False)
    where = read.Selection(under=[], globs=[glob] if glob else [], kinds=[])
    try:
        found = read.search(wanted, where, None)
    except Err as refusal:
        # The model can correct such a call, for example one with an invalid glob.
        return Outcome(text=str(refusal.value), data=None, is_error=True)
    lines = [f"{hit.path}:{hit.line}: {hit.text.strip()}" for hit in found.items[:50]]
    return Outcome(text="\n".join(lines) or "no notes", data=None, is_error=False)


class Tool(exports.Tool):
    def call(self, name, arguments_):
        if name == "notes":
            return notes(arguments(arguments_))
        raise Err(Failure_UnknownTool())
