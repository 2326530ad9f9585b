"""Keys: what may name an object, checked in this one place at the border of every store; and names on disks.

What it does not do: touch a disk. Every function here is pure.
Specification: Zarr core 3.0, "Abstract store interface" (keys are Unicode strings without a leading or trailing
slash; prefixes end with a slash) and "Stores: file system".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from terrazzo.errors import KeyRefusedError, StoreError

__all__ = [
    "check_key",
    "check_keys",
    "check_prefix",
    "check_range",
    "check_writes",
    "key_of_path",
    "path_of_key",
]

# One pass for what nearly all keys are: segments of harmless characters, none of them only dots.
_PLAIN = re.compile(r"(?:[\w\-+=,@ ~][\w\-+=,@ .~%]*/)*[\w\-+=,@ ~][\w\-+=,@ .~%]*", re.ASCII).fullmatch
_DRIVE = re.compile(r"[A-Za-z]:").match


def check_key(key: str) -> str:
    """The key itself, or KeyRefusedError with the reason.

    A percent sign has no meaning: `%2e%2e` is a name of six characters, not two dots.
    """
    if type(key) is str and _PLAIN(key):
        return key
    if not isinstance(key, str):
        raise KeyRefusedError(f"a key is a string, not {type(key).__name__}: {key!r}")
    if key == "":
        raise KeyRefusedError("an empty key names no object; keys look like 'zarr.json' or 'a/c/0/0'")
    reason = _why_refused(key)
    if reason:
        raise KeyRefusedError(f"key {key!r} is refused: {reason}")
    return key


def check_prefix(prefix: str) -> str:
    """The prefix itself (empty, or ending with a slash), or KeyRefusedError."""
    if prefix == "":
        return prefix
    if not isinstance(prefix, str):
        raise KeyRefusedError(f"a prefix is a string, not {type(prefix).__name__}: {prefix!r}")
    if not prefix.endswith("/"):
        raise KeyRefusedError(f"prefix {prefix!r} is refused: a prefix is empty or ends with a slash")
    if not _PLAIN(prefix[:-1]):
        reason = _why_refused(prefix[:-1])
        if reason:
            raise KeyRefusedError(f"prefix {prefix!r} is refused: {reason}")
    return prefix


def check_keys(keys: Iterable[str]) -> list[str]:
    """Every key checked before any is used."""
    return [check_key(key) for key in keys]


def check_range(key: str, window: object) -> None:
    """Refuse what is not a range: (start, length), length None or not negative, suffixes without a length."""
    if not (isinstance(window, tuple | list) and len(window) == 2):
        raise StoreError(f"{key!r}: a range is (start, length), not {window!r}")
    start, length = window
    if not _whole(start) or (length is not None and not _whole(length)):
        raise StoreError(f"{key!r}: a range is made of whole numbers, not {window!r}")
    if length is not None and (length < 0 or start < 0):
        raise StoreError(
            f"{key!r}: range {window!r} is refused: a length is not negative, and a range from the end "
            "(negative start) reads to the end (length None)"
        )


def check_writes(writes: Iterable[tuple[str, int, bytes]]) -> list[tuple[str, int, bytes]]:
    """Partial writes, checked: keys, starts, and that no two of them overlap (the order is not defined)."""
    checked = [(check_key(key), start, value) for key, start, value in writes]
    last_end: dict[str, int] = {}
    for key, start, value in sorted(checked, key=lambda write: (write[0], write[1])):
        if not _whole(start) or start < 0:
            raise StoreError(f"{key!r}: a partial write starts at a whole number from 0 on, not {start!r}")
        if start < last_end.get(key, 0):
            raise StoreError(
                f"{key!r}: two partial writes overlap at byte {start}; their order is not defined"
            )
        last_end[key] = start + memoryview(value).nbytes
    return checked


def _whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _why_refused(key: str) -> str | None:
    if "\0" in key:
        return "it contains a NUL character"
    if "\\" in key:
        return "it contains a backslash, which is a separator on some systems"
    if key.startswith("/"):
        return "it starts with a slash; keys are relative to the store"
    if key.endswith("/"):
        return "it ends with a slash, which names a prefix and not an object"
    if _DRIVE(key):
        return "it starts like a drive letter"
    for segment in key.split("/"):
        if segment == "":
            return "it has an empty segment"
        if segment in (".", ".."):
            return f"the segment {segment!r} could leave the store"
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:
        return "it is not valid Unicode (a lone surrogate)"
    return None


# -- names on disks --------------------------------------------------------------------------------------------------

# Names that Windows gives to devices, with any extension.
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$"]
    + [f"{port}{digit}" for port in ("com", "lpt") for digit in "123456789¹²³"]
)
_FORBIDDEN = re.compile(r'[<>:"|?*%\x00-\x1f]')
_ESCAPE = re.compile(r"%([0-9A-F]{2})")


def path_of_key(key: str, *, windows: bool = False, fold_case: bool = False) -> str:
    """The path below a root where the object `key` lies; `key_of_path` is its inverse.

    Linux and macOS keep keys as they are. `windows`: characters and names that Windows refuses are written as `%XX`,
    and segments are separated by backslashes. `fold_case`: ASCII capitals are escaped too, for places that do not tell
    `A` from `a`.
    """
    check_key(key)
    if not windows and not fold_case:
        return key
    return ("\\" if windows else "/").join(
        _escaped(segment, windows, fold_case) for segment in key.split("/")
    )


def key_of_path(path: str, *, windows: bool = False, fold_case: bool = False) -> str:
    """The key of the object that lies at `path` below a root."""
    if not windows and not fold_case:
        return check_key(path)
    segments: Sequence[str] = path.split("\\" if windows else "/")
    return check_key(
        "/".join(_ESCAPE.sub(lambda found: chr(int(found[1], 16)), segment) for segment in segments)
    )


def _escaped(segment: str, windows: bool, fold_case: bool) -> str:
    # '%' is escaped wherever anything is, so that the way back is unambiguous.
    text = _FORBIDDEN.sub(_percent, segment) if windows else segment.replace("%", "%25")
    if fold_case:
        text = _escape_capitals(text)
    if windows:
        if text[-1] in ". ":
            text = text[:-1] + f"%{ord(text[-1]):02X}"
        if text.split(".", 1)[0].rstrip(" ").lower() in _DEVICES:
            text = f"%{ord(text[0]):02X}" + text[1:]
    return text


def _percent(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):02X}"


def _escape_capitals(text: str) -> str:
    pieces = re.split(r"(%[0-9A-F]{2})", text)  # the hexadecimal capitals of an escape stay
    pieces[::2] = [re.sub(r"[A-Z]", _percent, piece) for piece in pieces[::2]]
    return "".join(pieces)
