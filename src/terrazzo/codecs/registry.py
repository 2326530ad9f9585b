"""Codecs by name: documents, strings and objects of other libraries -> codecs.

What it does not do: order codecs (chain.py) or know what they do.
Specification: Zarr core 3.0, "Codecs"; names as registered in zarr-extensions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from terrazzo.codecs.codec import Codec
from terrazzo.errors import MetadataError, UnknownCodecError
from terrazzo.metadata import Extension
from terrazzo.metadata.problems import describe, refuse

__all__ = [
    "codec_from",
    "codec_from_extension",
    "codec_from_string",
    "known_codecs",
    "register_codec",
    "register_family",
]

C = TypeVar("C", bound=Codec)
Make = Callable[[str, Mapping[str, Any], str], Codec]

_codecs: dict[str, type[Codec]] = {}
_aliases: dict[str, str] = {}
_families: dict[str, tuple[Make, Callable[[], tuple[str, ...]]]] = {}


def register_codec(codec: type[C], *, aliases: tuple[str, ...] = ()) -> type[C]:
    """Make a codec known by its name (and by aliases, which are read and never written); also a decorator.

    A later class of the same name takes the place of the earlier one.
    """
    name = getattr(codec, "name", None)
    if not (isinstance(codec, type) and issubclass(codec, Codec)) or not isinstance(name, str) or not name:
        raise TypeError(
            f"{codec!r} is no codec: it must be a class with a `name`, made from one of the codec kinds"
        )
    _codecs[name] = codec
    for alias in aliases:
        _aliases[alias] = name
    return codec


def register_family(prefix: str, make: Make, names: Callable[[], tuple[str, ...]]) -> None:
    """Make a whole family of names known: `make(name, configuration, path)` builds any that starts with `prefix`."""
    _families[prefix] = make, names


def registered() -> tuple[object, ...]:
    """All that names mean now: for those who remember what a name meant."""
    return (*_codecs.values(), *_aliases.items(), *_families.values())


def known_codecs() -> tuple[str, ...]:
    """Every name that documents may use, in alphabetical order."""
    family = (name for _, names in _families.values() for name in names())
    return tuple(sorted({*_codecs, *_aliases, *family}))


def codec_from_extension(extension: Extension, path: str = "") -> Codec:
    """The codec that a document's member means; raises UnknownCodecError, or MetadataError with `path`."""
    name = _aliases.get(extension.name, extension.name)
    found = _codecs.get(name)
    if found is not None:
        return found.from_configuration(extension.configuration, path)
    for prefix, (make, _) in _families.items():
        if name.startswith(prefix):
            return make(name, extension.configuration, path)
    ignorable = (
        ""
        if extension.must_understand
        else (
            "; `must_understand` is false, but without this codec the chunks cannot be decoded, so it is not ignored"
        )
    )
    raise _unknown(extension.name, path, ignorable)


def codec_from_string(text: str, path: str = "") -> Codec:
    """A codec as people say it: "gzip", "zstd:5", "blosc:lz4:5:shuffle"; the parts are arguments, in order."""
    name, *parts = text.strip().split(":")
    name = _aliases.get(name, name)
    found = _codecs.get(name)
    if found is None:
        if any(name.startswith(prefix) for prefix in _families) and not parts:
            return codec_from_extension(Extension(name), path)
        raise _unknown(name, path)
    spelling = found.spelling
    if len(parts) > len(spelling):
        form = ":".join([name, *(f"<{argument}>" for argument in spelling)])
        refuse(path, f"found {describe(text)}, of which at most {describe(form)} is understood")
    arguments = {argument: _argument(part) for argument, part in zip(spelling, parts, strict=False) if part}
    try:
        return found(**arguments)
    except TypeError:
        from inspect import signature  # slow to import, and seldom needed

        lacking = [
            argument.name
            for argument in signature(found).parameters.values()
            if argument.default is argument.empty and argument.name not in arguments
        ]
        if not lacking:
            raise
        refuse(
            path,
            f"found {describe(text)}, which does not state {', '.join(lacking)}; pass a codec object instead",
        )
    except MetadataError as error:
        refuse(path, f"found {describe(text)}: {error}", type(error))


def codec_from(value: object, path: str = "") -> Codec:
    """A codec from anything that stands for one: itself, a string, a document's object, or another library's codec.

    An object whose name is not known makes its class known, so that the array it was passed for can be opened again.
    """
    if isinstance(value, Codec):
        if value.name not in _codecs and not any(value.name.startswith(prefix) for prefix in _families):
            register_codec(type(value))
        return value
    if isinstance(value, str):
        return codec_from_string(value, path)
    if isinstance(value, Extension):
        return codec_from_extension(value, path)
    if isinstance(value, Mapping):
        if "id" in value and "name" not in value:
            return _from_numcodecs(dict(value), path)
        return codec_from_extension(Extension.from_json(dict(value), path, ignorable=True), path)
    to_dict = getattr(value, "to_dict", None)
    if callable(to_dict) and not isinstance(value, type):
        return codec_from_extension(Extension.from_json(_plain(to_dict()), path, ignorable=True), path)
    get_config = getattr(value, "get_config", None)
    if callable(get_config) and not isinstance(value, type):
        return _from_numcodecs(get_config(), path)
    raise TypeError(
        f"{path + ': ' if path else ''}{value!r} is no codec: use a codec object, a string such as 'zstd:5', "
        "or a document's object with `name` and `configuration`"
    )


def _plain(value: Any) -> Any:
    """Another library's dictionary without its tuples and enumerations."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return getattr(value, "value", value)


def _from_numcodecs(config: dict[str, Any], path: str) -> Codec:
    """numcodecs' own configuration: the codecs that have a registered name get it, the others the prefix."""
    identity = config.pop("id", None)
    if not isinstance(identity, str):
        refuse(path, f"found {describe(config)} without an `id`, must name a codec")
    if identity == "zstd":
        config.setdefault("level", 0)
    elif identity == "blosc":
        shuffle = config.get("shuffle")
        names = {0: "noshuffle", 1: "shuffle", 2: "bitshuffle", -1: None}
        if isinstance(shuffle, int) and shuffle in names:
            config["shuffle"] = names[shuffle]
        if config.get("typesize") is None:
            config.pop("typesize", None)
        return _codecs["blosc"](**config)
    if identity in ("zstd", "gzip", "vlen-utf8", "vlen-bytes"):
        return codec_from_extension(Extension(identity, config), path)
    return codec_from_extension(Extension(f"numcodecs.{identity}", config), path)


def _argument(part: str) -> Any:
    if part in ("true", "false"):
        return part == "true"
    try:
        return int(part)
    except ValueError:
        return part


def _unknown(name: str, path: str, more: str = "") -> UnknownCodecError:
    known = known_codecs()
    import difflib

    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5) or difflib.get_close_matches(
        f"numcodecs.{name}", known, n=1, cutoff=0.9
    )
    hint = f"near it: {', '.join(near)}" if near else f"known are: {', '.join(known)}"
    sentence = f"found the codec {describe(name)}, which is not known; {hint}{more}"
    return UnknownCodecError(f"{path}: {sentence}" if path else sentence, ((path, sentence),))
