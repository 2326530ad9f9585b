"""Lettering: words as pixels, for pictures that have no fonts. Glyphs of five by seven, one pixel apart.

What it does not do: more than digits, Latin letters and the few signs that axes need; anything else is a small box.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["HEIGHT", "WIDTH", "lettering"]

#: pixels of one glyph, with the gap behind it
WIDTH, HEIGHT = 6, 7
_BOX = "1F11111111111F"
#: seven rows of five bits, from the top, each as two hexadecimal digits
_GLYPHS = {
    " ": "00000000000000",
    "0": "0E11131519110E",
    "1": "040C040404040E",
    "2": "0E11010608101F",
    "3": "1F02040601110E",
    "4": "02060A121F0202",
    "5": "1F101E0101110E",
    "6": "0608101E11110E",
    "7": "1F010204080808",
    "8": "0E11110E11110E",
    "9": "0E11110F01020C",
    "a": "00000E010F110F",
    "b": "10101E1111111E",
    "c": "00000E1110110E",
    "d": "01010F1111110F",
    "e": "00000E111F100E",
    "f": "0609081C080808",
    "g": "000F11110F010E",
    "h": "10101E11111111",
    "i": "04000C0404040E",
    "j": "0200060202120C",
    "k": "10101214181412",
    "l": "0C04040404040E",
    "m": "00001A15151515",
    "n": "00001E11111111",
    "o": "00000E1111110E",
    "p": "00001E111E1010",
    "q": "000F11110F0101",
    "r": "00001619101010",
    "s": "00000F100E011E",
    "t": "08081C08080906",
    "u": "0000111111130D",
    "v": "00001111110A04",
    "w": "0000111115150A",
    "x": "0000110A040A11",
    "y": "001111110F010E",
    "z": "00001F0204081F",
    "A": "0E11111F111111",
    "B": "1E11111E11111E",
    "C": "0E11101010110E",
    "D": "1E11111111111E",
    "E": "1F10101E10101F",
    "F": "1F10101E101010",
    "G": "0E11101711110F",
    "H": "1111111F111111",
    "I": "0E04040404040E",
    "J": "0702020202120C",
    "K": "11121418141211",
    "L": "1010101010101F",
    "M": "111B1515111111",
    "N": "11191513111111",
    "O": "0E11111111110E",
    "P": "1E11111E101010",
    "Q": "0E11111115120D",
    "R": "1E11111E141211",
    "S": "0F10100E01011E",
    "T": "1F040404040404",
    "U": "1111111111110E",
    "V": "111111110A0A04",
    "W": "1111111515150A",
    "X": "11110A040A1111",
    "Y": "11110A04040404",
    "Z": "1F01020408101F",
    ".": "00000000000C0C",
    ",": "000000000C0408",
    ":": "000C0C000C0C00",
    "-": "0000001F000000",
    "+": "0004041F040400",
    "=": "00001F001F0000",
    "/": "00010204081000",
    "_": "0000000000001F",
    "(": "02040808080402",
    ")": "08040202020408",
    "%": "18190204081303",
    "°": "0C12120C000000",
    "²": "0C12040E000000",
    "×": "00110A040A1100",
}


def lettering(words: str, size: int = 1) -> np.ndarray[Any, Any]:
    """Words as bool (7 * size, 6 * size * len(words)): true where there is ink.

    >>> lettering("1").astype(int).sum(axis=1).tolist()
    [1, 2, 1, 1, 1, 1, 3]
    """
    if size < 1:
        raise ValueError(f"letters of size {size}; 1 or more is needed")
    ink = np.zeros((HEIGHT, WIDTH * len(words)), np.bool_)
    for k, letter in enumerate(words):
        rows = bytes.fromhex(_GLYPHS.get(letter, _BOX))
        for row, bits in enumerate(rows):
            for column in range(5):
                ink[row, k * WIDTH + column] = bits >> (4 - column) & 1
    return ink.repeat(size, axis=0).repeat(size, axis=1)
