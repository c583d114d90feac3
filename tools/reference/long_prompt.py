"""Makes the long prompt: a harbour logbook of about 1,500 tokens.

A prompt that repeats one sentence would let attention errors hide, because
every position would look alike.  Here each day draws its sentences, and the
names and numbers in them, from lists of different lengths that are walked
with different strides, so no two days read the same.  Nothing is random.
"""

from __future__ import annotations

import sys
from pathlib import Path

N_DAYS = 18

OPENING = (
    "The following pages are copied from the logbook of the harbour office at "
    "Skarvik, a small town on a cold coast. The clerk who kept it wrote a few lines "
    "every evening, and seldom crossed anything out.\n"
)

WEATHER = [
    "Fog until {hour}, then a thin sun with no warmth in it.",
    "Wind from the {side} all day, strong enough to move the empty barrels along the quay.",
    "Rain, and more rain; the gauge by the stairs shows {count} millimetres.",
    "A still, grey morning, with the water so flat that the {ship} seemed to hang in the air.",
    "Frost on the ropes at dawn, gone by {hour}.",
    "Clear sky. From the tower one could count {count} sails beyond the {side} reef.",
    "Sleet came down sideways and drove everyone but {person} indoors.",
]

ARRIVALS = [
    "The {ship} came in at {hour} with {count} crates of {cargo} and a broken rudder chain.",
    "Nothing arrived except the mail boat, which brought {count} letters and a parcel for {person}.",
    "We had expected the {ship}, but she is said to be waiting behind the {side} islands.",
    "At {hour} the {ship} left for the south, loaded with {cargo}.",
    "Two boats asked for the same berth; {person} tossed a coin, and the {ship} lost.",
    "The pilot refused to bring the {ship} in before {hour}, and he was right to refuse.",
    "A stranger's yacht anchored off the {side} pier, bought {cargo}, and paid in old silver.",
    "Customs opened {count} boxes marked as {cargo}; all of them held exactly that.",
    "The {ship} unloaded {cargo} so slowly that {person} offered to do it alone.",
    "Fishing was poor: {count} kilos for the whole fleet, most of it taken by the {ship}.",
    "A raft of timber broke loose and closed the {side} channel until {hour}.",
]

WORK = [
    "{person} painted the {side} door of the warehouse green, although blue had been agreed.",
    "The crane jammed again, and it took {count} strokes of the hammer to free it.",
    "I paid {person} for {count} hours and wrote the receipt twice, since the first blew away.",
    "New planks were laid on the {side} steps, where the mayor fell last spring.",
    "{person} found that the lamp burns less oil when its glass is turned towards the {side}.",
    "We counted the stores: {cargo} enough for the winter, but only {count} candles.",
    "The clock in the hall stopped at {hour}; nobody noticed before supper.",
    "A rat got into the {cargo}, so the cat has been given a week's notice.",
    "{person} asked for leave to marry, and was given three days and a ham.",
    "The diver went down off the {side} wall and came up with an anchor older than the town.",
    "Someone has carved the name of the {ship} into my desk.",
    "The telegraph was silent until {hour}, then sent us the price of {cargo} four times.",
    "{person} mended the net that hangs across the {side} basin, using wire instead of twine.",
]

EVENING = [
    "Closed the office at {hour}.",
    "In the tavern they say that {person} will buy the {ship}; I do not believe it.",
    "Before bed I checked the {side} moorings and found every knot sound.",
    "The lighthouse keeper signalled {count} times, which means either good news or a loose shutter.",
    "I have {count} pages left in this book and must ask for another.",
]

HOURS = ["six", "half past seven", "nine", "noon", "two", "a quarter to four", "five", "eleven"]
SIDES = ["north", "east", "south-west", "west", "north-east", "south"]
SHIPS = ["Marigold", "Old Testament", "Petrel", "Anna Sofie", "Windlass", "Cormorant", "Third Brother"]
CARGOES = ["salt", "tar", "dried cod", "window glass", "coffee", "iron nails", "wool", "lamp oil", "oranges"]
PEOPLE = ["Ingrid", "the cooper", "Tobias", "young Halvard", "Mrs. Lund"]
MONTHS = [("October", 31), ("November", 30)]


class Wheel:
    """Walks round a list, so that each draw differs from the one before."""

    def __init__(self, items: list[str], step: int) -> None:
        self._items, self._step, self._at = items, step, 0

    def draw(self) -> str:
        self._at = (self._at + self._step) % len(self._items)
        return self._items[self._at]


class Clerk:
    """Fills sentence patterns from the wheels of names and numbers."""

    def __init__(self) -> None:
        self._wheels = {
            "hour": Wheel(HOURS, 3),
            "side": Wheel(SIDES, 5),
            "ship": Wheel(SHIPS, 3),
            "cargo": Wheel(CARGOES, 4),
            "person": Wheel(PEOPLE, 2),
        }
        self._count = 5

    def write(self, pattern: str) -> str:
        slots = {n: w.draw() for n, w in self._wheels.items() if f"{{{n}}}" in pattern}
        if "{count}" in pattern:
            self._count = (self._count * 37 + 11) % 97
            slots["count"] = str(self._count + 3)
        sentence = pattern.format(**slots)
        return sentence[0].upper() + sentence[1:]


def date_of(day: int) -> str:
    month, length = MONTHS[0]
    number = day + 17
    return f"{number} {month}" if number <= length else f"{number - length} {MONTHS[1][0]}"


def build() -> str:
    """The whole text; it stops in a sentence that a model can only go on with
    by looking far back."""
    clerk = Clerk()
    parts = [Wheel(WEATHER, 3), Wheel(ARRIVALS, 4), Wheel(WORK, 5), Wheel(EVENING, 2)]
    lines = [OPENING]
    for day in range(N_DAYS):
        sentences = [clerk.write(part.draw()) for part in parts]
        if day % 3 == 1:
            sentences.insert(2, clerk.write(parts[1].draw()))
        lines.append(f"{date_of(day)}. {' '.join(sentences)}\n")
    lines.append(f"{date_of(N_DAYS)}. In the tavern")
    return "\n".join(lines)


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(build().encode("utf-8"))
