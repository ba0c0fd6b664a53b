# SPDX-License-Identifier: Apache-2.0
"""The mutants of a C++ header: one change each, described by function, operator, change and statement,
so that the description outlives edits elsewhere in the file and another layout of the lines."""
import dataclasses
import re


@dataclasses.dataclass
class mutant:
    description: str
    text: str


@dataclasses.dataclass
class function:
    name: str
    begin: int  # of its body, behind the brace
    end: int    # of its body, before the brace
    blocks: list  # of lists of (begin, end) of statements


def without_comments(text):
    """The text with comments blanked out, every character in its place."""
    return re.sub(r"//[^\n]*", lambda m: " " * len(m[0]), text)


def matching(text, at):
    """Position of the bracket that closes the one at `at`."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    closing, depth = pairs[text[at]], 0
    for i in range(at, len(text)):
        if text[i] == text[at]:
            depth += 1
        elif text[i] == closing:
            depth -= 1
            if depth == 0:
                return i
    raise ValueError("unbalanced brackets")


def statements(code, begin, end, blocks):
    """Appends the statements between two positions to `blocks`, inner blocks too."""
    found = []
    at = begin
    while True:
        while at < end and code[at].isspace():
            at += 1
        if at >= end:
            break
        start = at
        if re.match(r"if\b", code[at:]):
            at = matching(code, code.index("(", at)) + 1
            while code[at].isspace():
                at += 1
            if code[at] == "{":
                close = matching(code, at)
                statements(code, at + 1, close, blocks)
                at = close + 1
                found.append((start, at))
                continue
        while code[at] != ";":
            at = matching(code, at) + 1 if code[at] in "({[" else at + 1
        at += 1
        found.append((start, at))
    blocks.append(found)


def functions(code):
    """Function definitions at namespace scope; the text uses `{` behind `)` or `const` for no other."""
    found = []
    at = 0
    pattern = re.compile(r"^[^\n#{}]*?\b(\w+)\(([^;{}]*?)\)\s*\{", re.M)
    while m := pattern.search(code, at):
        open_brace = m.end() - 1
        close = matching(code, open_brace)
        f = function(m[1], open_brace + 1, close, [])
        statements(code, f.begin, f.end, f.blocks)
        found.append(f)
        at = close
    return found


comparisons = ["==", "!=", "<", "<=", ">", ">="]
weaker = {
    "load": {"seq_cst": ["acquire", "relaxed"], "acquire": ["relaxed"]},
    "store": {"seq_cst": ["release", "relaxed"], "release": ["relaxed"]},
    "fetch": {
        "seq_cst": ["acq_rel", "acquire", "release", "relaxed"],
        "acq_rel": ["acquire", "release", "relaxed"],
        "acquire": ["relaxed"],
        "release": ["relaxed"],
    },
}


def squeeze(text):
    return " ".join(text.split())


def short(text):
    """A statement as the list shows it: on one line, without what all of them have in common."""
    text = squeeze(text)
    if text.startswith("if (") and text[matching(text, 3) + 1:matching(text, 3) + 3] == " {":
        text = text[:matching(text, 3) + 1]
    text = re.sub(r"A::template (\w+)<order::relaxed, scope::device>", r"\1", text)
    text = re.sub(r"A::template (\w+)<order::(\w+), scope::(\w+)>", r"\1<\2, \3>", text)
    return text.replace("std::", "")


def changes(code, f):
    """Yields (operator, begin, end, replacement, what) for one function."""
    body = code[f.begin:f.end]

    def at(m, group=0):
        return f.begin + m.start(group), f.begin + m.end(group)

    for m in re.finditer(r"(?<= )(==|!=|<=|>=|<|>)(?= )", body):
        for other in comparisons:
            if other != m[1]:
                yield "compare", *at(m), other, f"{m[1]} -> {other}"
    # Conditions: of an if, of a conditional expression.
    for m in re.finditer(r"\bif \(", body):
        begin = f.begin + m.end()
        end = matching(code, begin - 1)
        condition = code[begin:end]
        yield "negate", begin, end, f"!({condition})", f"if ({short(condition)})"
    for m in re.finditer(r"([^?:;,={}()]+(?:\([^()]*\))?) \?(?= )", body):
        begin, end = at(m, 1)
        while code[begin].isspace():
            begin += 1
        condition = code[begin:end]
        yield "negate", begin, end, f"!({condition})", f"{squeeze(condition)} ?"
    for m in re.finditer(r"(?<=[-+<>=({ ])(\d+)(?=[);}, ])", body):
        for step in (1, -1):
            value = int(m[1]) + step
            if value >= 0:
                yield "number", *at(m), str(value), f"{m[1]} -> {value}"
    # Values one too many or too few: constants of the submission, locals and parameters.
    names = "|".join(values(code, f))
    for m in re.finditer(r"(?<=[ ({])((?:t\.)?\b(?:" + names + r")\b)(?=[);, }])(?!\s*=\s)", body):
        for sign in ("+", "-"):
            yield "value", *at(m), f"({m[1]} {sign} 1)", f"{m[1]} {sign} 1"
    for m in re.finditer(r"\b(true|false)\b", body):
        other = {"true": "false", "false": "true"}[m[1]]
        yield "boolean", *at(m), other, f"{m[1]} -> {other}"
    for block in f.blocks:
        for begin, end in block:
            yield "remove", begin, end, "", short(code[begin:end])
        for (begin, end), (next_begin, next_end) in zip(block, block[1:]):
            first, second = code[begin:end], code[next_begin:next_end]
            if squeeze(first) != squeeze(second):
                yield ("swap", begin, next_end, second + code[end:next_begin] + first,
                       f"{short(first)} <-> {short(second)}")
    for m in re.finditer(r"(load|store|fetch)\w*<order::(\w+), scope::(\w+)>", body):
        for order in weaker[m[1]].get(m[2], []):
            yield "order", *at(m, 2), order, f"{m[2]} -> {order}"
        if m[3] == "system":
            yield "scope", *at(m, 3), "device", "system -> device"


def around(f, begin, end):
    """The innermost statement that holds a change."""
    held = [s for block in f.blocks for s in block if s[0] <= begin and end <= s[1]]
    return min(held, key=lambda s: s[1] - s[0], default=(f.begin, f.end))


def values(code, f):
    """Numbers a function can get wrong by one: what it is given, and what it works out."""
    head = code[code.rfind("\n}", 0, f.begin) + 1:f.begin]
    names = re.findall(r"std::uint\d+_t (\w+)(?=[,)])", head)
    names += re.findall(r"const std::uint\d+_t (\w+) =", code[f.begin:f.end])
    return names + ["ordinal", "tiles", "participants", "batch", "id", "epoch"]


def constants(code):
    """Constants and default values at namespace scope, as functions without statements."""
    for m in re.finditer(r"^inline constexpr \S+ (\w+) =[^;]*;|^  bool (\w+) =[^;]*;", code, re.M):
        yield function(m[1] or m[2], m.start(), m.end(), [])


def mutants(text):
    code = without_comments(text)
    defined = functions(code)
    used = " ".join(code[f.begin:f.end] for f in defined)
    # Sizes and the like, which no transition looks at, are left alone.
    named = [c for c in constants(code) if re.search(rf"\b{c.name}\b", used) or c.name == "published"]
    seen = {}
    for f in [*named, *defined]:
        for operator, begin, end, replacement, what in changes(code, f):
            where = short(code[slice(*around(f, begin, end))])
            if operator in ("remove", "swap"):
                description = f"{f.name} {operator}: {what}"
            else:
                description = f"{f.name} {operator}: {what} in: {where}"
            # The same change twice in one statement: numbered.
            seen[description] = seen.get(description, 0) + 1
            if seen[description] > 1:
                description += f" (#{seen[description]})"
            yield mutant(description, text[:begin] + replacement + text[end:])
