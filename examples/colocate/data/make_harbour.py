#!/usr/bin/env python3
# SPDX-License-Identifier: CC0-1.0
"""Writes harbour.txt: plain English prose put together from a small grammar.

The same text on every machine: usage: python3 make_harbour.py > harbour.txt
"""
import textwrap

STATE = 20240229


def draw(n):
    """0 .. n-1, from a linear congruential generator: no library decides what comes."""
    global STATE
    STATE = (STATE * 6364136223846793005 + 1442695040888963407) % 2**64
    return (STATE >> 33) % n


def pick(words):
    return words[draw(len(words))]


PEOPLE = """the harbour master|the pilot|an old sailor|the baker's daughter|the lighthouse keeper|a young
clerk|the customs officer|the ferryman|a fisherman from the north|the widow at the corner|the doctor|the
schoolteacher|a carpenter|the captain of the Margaret|her brother|the boy with the lantern|a stranger in a
grey coat|the woman who mended nets|the cook|the second mate""".replace("\n", " ").split("|")
THINGS = """the rope|a letter|the ledger|the tide table|a basket of herring|the anchor|an oil lamp|the brass
bell|a coil of wire|the blue boat|a map of the channel|the last crate of oranges|a pair of boots|the spare
sail|an iron key|a cup of tea|the broken oar|a sack of flour|the barometer|the telescope""".replace(
    "\n", " ").split("|")
PLACES = """on the quay|behind the warehouse|in the market hall|under the old bridge|at the end of the
pier|by the north gate|in the chapel|near the slipway|on the upper deck|in the rope loft|beside the
well|across the bay|at the foot of the stairs|in the kitchen of the inn|along the sea wall""".replace(
    "\n", " ").split("|")
TIMES = """before sunrise|in the early morning|at noon|when the fog had lifted|after the storm|late in
the evening|on the first day of spring|that winter|once the tide had turned|at midnight|a week
later|as soon as the wind dropped|during the long strike|on market day""".replace("\n", " ").split("|")
ACTIONS = """carried # to the office|counted what was left of #|left # in the rain|found #|sold # for
half its worth|promised to bring #|hid #|painted #|asked for #|looked at # without a word|lost #|came
back for #|put # on the table|wrote a list and began it with #|would not let go of #""".replace(
    "\n", " ").split("|")
PLAIN = """waited|laughed|said nothing|walked home slowly|listened to the gulls|watched the ships come
in|fell asleep|sang an old song|sat down|shook hands with everyone|thought of the years before the
war|turned round twice|went out again|kept the fire burning""".replace("\n", " ").split("|")
QUALITIES = """quiet|cold|full of people|empty|bright|slow|uneasy|familiar|strange|warm|grey|patient|busy|calm|
loud|heavy with salt""".replace("\n", " ").split("|")
SUBJECTS = """the sea|the town|the street|the water in the basin|the sky over the islands|the house|the
engine|the crowd|the light|the road to the mill|the air|the morning|the crane|the whole coast""".replace(
    "\n", " ").split("|")
SAYINGS = """There will be rain by tonight|You cannot trust a calm like this one|Somebody has moved the
boats|I have seen it before|Nobody asked me|The price has gone up again|It was here yesterday|We should
have left an hour ago|Give it back when you are finished|The lamp must not go out|Count them once
more|It is only the wind|My father built that wall|They will come with the next tide""".replace(
    "\n", " ").split("|")
LINKS = "and|but|so|while|because|and then|although|until".split("|")
CONDITIONS = """if the mail was late|unless someone objected|as everybody knew|so far as one could
tell|for no good reason|as it had been agreed|more from habit than from need|with great care|in spite of
the weather""".replace("\n", " ").split("|")


def action():
    return pick(ACTIONS).replace("#", pick(THINGS)) if draw(3) else pick(PLAIN)


def clause():
    kind = draw(4)
    if kind == 0:
        return f"{pick(SUBJECTS)} was {pick(QUALITIES)}"
    if kind == 1:
        return f"{pick(PEOPLE)} {action()} {pick(PLACES)}"
    if kind == 2:
        return f"{pick(PEOPLE)} {action()}, {pick(CONDITIONS)}"
    return f"{pick(PEOPLE)} {action()}"


def sentence():
    kind = draw(7)
    if kind == 0:
        text = f"{pick(TIMES)}, {clause()}"
    elif kind == 1:
        text = f"{clause()}, {pick(LINKS)} {clause()}"
    elif kind == 2:
        return f'"{pick(SAYINGS)}," said {pick(PEOPLE)}.'
    elif kind == 3:
        return f'"{pick(SAYINGS)}," {pick(PEOPLE)} said {pick(PLACES)}, "{pick(LINKS)} {clause()}."'
    elif kind == 4:
        text = f"{pick(SUBJECTS)} was {pick(QUALITIES)} and {pick(QUALITIES)}; {clause()}"
    elif kind == 5:
        number = draw(89) + 10
        text = f"{pick(PEOPLE)} counted {number} {pick(['boats', 'barrels', 'steps', 'gulls', 'lights', 'coins'])} {pick(PLACES)}"
    else:
        text = clause()
    return text[0].upper() + text[1:] + "."


def paragraph():
    return textwrap.fill(" ".join(sentence() for _ in range(4 + draw(6))), 92)


def main():
    size = 0
    chapter = 0
    while size < 180_000:
        chapter += 1
        parts = [f"Chapter {chapter}"] + [paragraph() for _ in range(12 + draw(8))]
        text = "\n\n".join(parts) + "\n\n"
        size += len(text)
        print(text, end="")


main()
