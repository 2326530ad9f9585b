"""Documents of the 2022 draft of Zarr 3: `*.array.json`, `*.group.json` to the document that Zarr 3 has now, and back.

What it does not do: touch a store, or know where documents and chunks lie (dialects/draft.py). Two ways to write are
known: "P", as zarr-python 2.12 to 2.18 wrote, and "D", to the letter of the draft of December 2022. Both are read, and
what acquire and the writers of 2020 made of it.

The sharding storage transformer becomes the codec `sharding_indexed` with a plain index at the end: the same bytes.

https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#change-log (the draft itself is not served any more)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from terrazzo.errors import MetadataError, UnknownCodecError
from terrazzo.metadata.data_types import Complex, DataType, RawBits, Struct, data_type_from_json
from terrazzo.metadata.draft_types import Fallback, draft_element, draft_fill, draft_spelling
from terrazzo.metadata.numcodecs_names import chain_from_numcodecs, chain_to_numcodecs, objects_of
from terrazzo.metadata.numpy_types import ElementType, fill_to_numpy
from terrazzo.metadata.problems import Problems, describe, join, refuse, remark

__all__ = [
    "FALLBACK",
    "FALLBACKS",
    "SHARDING",
    "Way",
    "array_from_draft",
    "array_to_draft",
    "check_extensions",
    "group_from_draft",
]

Json = dict[str, Any]
Way = Literal["P", "D"]
CODEC = {"P": "https://purl.org/zarr/spec/codec/{}/1.0", "D": "https://purl.org/zarr/spec/codecs/{}/1.0"}
SHARDING = "https://purl.org/zarr/spec/storage_transformers/sharding/1.0"
SHARDING_OF_THE_LETTER = "https://purl.org/zarr/spec/extensions/storage_transformers/sharding/1.0"
#: the member that says which data type was not known, for whoever shows the array
FALLBACK = "terrazzo.fallback"
#: the member by which a caller says which fallbacks a new document is to state
FALLBACKS = "terrazzo.fallbacks"
#: compressors that the reader of zarr-python knows
COMPRESSORS = ("gzip", "zlib", "blosc", "bz2", "lz4", "lzma", "zstd")
MEMBERS = frozenset(
    {
        *(
            "shape",
            "data_type",
            "chunk_grid",
            "chunk_memory_layout",
            "fill_value",
            "attributes",
            "extensions",
        ),
        *("codecs", "compressor", "storage_transformers", "dimension_separator"),
    }
)
INDEX = [{"name": "bytes", "configuration": {"endian": "little"}}]


def array_from_draft(
    found: object,
    way: Way,
    *,
    fallback: Fallback = "error",
    chunks_per_shard: Sequence[int] | None = None,
    strict: bool = True,
) -> Json:
    """What Zarr 3 says where the draft says `found`; raises MetadataValidationError with every problem and its path.

    chunks_per_shard: of an array whose document does not say it any more (a writer lost it when it resized).
    """
    problems = Problems()
    if not isinstance(found, dict):
        refuse("", f"found {describe(found)}, must be an object")
    for member in ("shape", "data_type", "chunk_grid"):
        if member not in found:
            problems.add(member, "is missing")
    problems.raise_any("")
    with problems.collected():
        check_extensions(found.get("extensions", []), "extensions")
    _check_unknown(found, way, problems)
    shape = found["shape"] if isinstance(found["shape"], list) else []
    attributes = found.get("attributes", {})
    filters: Any = []
    if isinstance(attributes, dict) and _are_filters(attributes.get("filters")):
        filters = attributes["filters"]
        attributes = {name: value for name, value in attributes.items() if name != "filters"}
    name = objects_of(filters)
    objects = None if name is None else data_type_from_json(name)
    element = grid = codecs = fill = None
    with problems.collected():
        element = draft_element(found["data_type"], "data_type", objects, fallback)
    with problems.collected():
        grid = _grid(found["chunk_grid"], found.get("dimension_separator"))
    if element is not None:
        with problems.collected():
            fill = draft_fill(found.get("fill_value"), element, "fill_value", strict=strict)
        with problems.collected():
            codecs = _codecs(found, filters, element, len(shape))
    shards: list[list[int]] = []
    own: list[Json] = []
    with problems.collected():
        shards, own = _transformers(found.get("storage_transformers") or [], len(shape))
        if chunks_per_shard is not None and not shards:
            shards = [_counts(list(chunks_per_shard), len(shape), "chunks_per_shard")]
    problems.raise_any("")
    assert grid is not None
    assert codecs is not None
    assert element is not None
    chunk_shape, separator = grid
    if shards and (len(chunk_shape) != len(shape) or not all(type(edge) is int for edge in chunk_shape)):
        refuse("chunk_grid.chunk_shape", f"found {describe(chunk_shape)}, must be {len(shape)} integers")
    for counts in shards:
        codecs = [
            {
                "name": "sharding_indexed",
                "configuration": {
                    "chunk_shape": chunk_shape,
                    "codecs": codecs,
                    "index_codecs": INDEX,
                    "index_location": "end",
                },
            }
        ]
        chunk_shape = [edge * count for edge, count in zip(chunk_shape, counts, strict=True)]
    scalar = "c0" if way == "P" else "c"
    told = (
        {} if element.instead_of is None else {FALLBACK: {"must_understand": False, "of": element.instead_of}}
    )
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": found["shape"],
        "data_type": element.data_type.to_json(),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk_shape}},
        "chunk_key_encoding": {
            "name": "terrazzo.draft",
            "configuration": {"separator": separator, "scalar": scalar},
        },
        "fill_value": fill,
        "codecs": codecs,
        "attributes": attributes,
        **({"storage_transformers": own} if own else {}),
        **told,
    }


def array_to_draft(document: Json, way: Way) -> Json:
    """The draft's document for what Zarr 3 says; refused with the reason where the draft cannot say it."""
    problems = Problems()
    if document.get("dimension_names"):
        problems.add("dimension_names", "the draft has no names of dimensions; leave them out")
    own = document.get("storage_transformers") or []
    if not all("://" in one["name"] for one in own):
        problems.add("storage_transformers", "the draft knows transformers by their addresses alone")
    grid = document["chunk_grid"]
    if grid["name"] != "regular":
        problems.add("chunk_grid", f"the draft has regular chunks alone, not {describe(grid['name'])}")
    encoding = document["chunk_key_encoding"]
    if encoding["name"] != "terrazzo.draft":
        problems.add(
            "chunk_key_encoding",
            f"the draft names chunks in one way, not as {describe(encoding['name'])} does",
        )
    problems.raise_any("")
    ndim = len(document["shape"])
    edges = list(grid["configuration"]["chunk_shape"])
    codecs = document["codecs"]
    shards: list[Json] = []
    while codecs and codecs[0]["name"] == "sharding_indexed":
        inner, codecs = _unwrapped(codecs)
        counts = [outer // edge for outer, edge in zip(edges, inner, strict=True)] or [1]
        shards.insert(0, {"extension": SHARDING if way == "P" else SHARDING_OF_THE_LETTER, "type": "indexed"})
        shards[0]["configuration"] = {"chunks_per_shard": counts}
        edges = inner
    data_type = data_type_from_json(document["data_type"])
    spelled = draft_spelling(data_type, None, way)
    stated = spelled if isinstance(spelled, str) else None
    filters, compressor, order, endian = chain_to_numcodecs(codecs, ndim, stated)
    attributes = dict(document.get("attributes") or {})
    fill = data_type.fill_from_json(document["fill_value"])
    made: Json = {
        "shape": document["shape"],
        "chunk_grid": {
            "type": "regular",
            "chunk_shape": edges,
            "separator": encoding["configuration"]["separator"],
        },
        "data_type": draft_spelling(data_type, endian, way, document.get(FALLBACKS, {}).get("types")),
        "chunk_memory_layout": order,
        "fill_value": _fill(fill, data_type, endian, way),
        "extensions": [],
        "attributes": attributes,
    }
    if way == "P":
        if filters:
            if "filters" in attributes:
                refuse(
                    "attributes.filters", "zarr-python keeps codecs under this name, and this array has some"
                )
            attributes["filters"] = filters
        if compressor is not None:
            made["compressor"] = _stated(compressor, way, "codec")
    else:
        made["codecs"] = _letter_codecs(filters, compressor, endian)
    transformers = [*shards, *(_transformer(one) for one in own)]
    if transformers:
        made["storage_transformers"] = transformers
    return made


def group_from_draft(found: object, way: Way) -> Json:
    """The same for a group's document."""
    if not isinstance(found, dict):
        refuse("", f"found {describe(found)}, must be an object")
    if way == "D":
        problems = Problems()
        _check_unknown(found, way, problems, frozenset({"attributes"}))
        problems.raise_any("")
    return {"zarr_format": 3, "node_type": "group", "attributes": found.get("attributes", {})}


def check_extensions(found: object, path: str) -> None:
    """Every extension must be understood unless it says otherwise, and none is known."""
    if not isinstance(found, list):
        refuse(path, f"found {describe(found)}, must be a list")
    for i, one in enumerate(found):
        if not isinstance(one, dict) or one.get("must_understand") is not False:
            name = one.get("extension") if isinstance(one, dict) else one
            refuse(
                join(path, i),
                f"found the extension {describe(name)}, which has to be understood and is not known",
            )


def _check_unknown(found: Json, way: Way, problems: Problems, known: frozenset[str] = MEMBERS) -> None:
    for member in sorted(found.keys() - known):
        value = found[member]
        if isinstance(value, dict) and value.get("must_understand") is False:
            continue
        sentence = f"found {describe(value)} under a name that the draft does not know"
        if way == "D":
            problems.add(join("", member), sentence)
        else:
            remark(join("", member), f"{sentence}; ignored, as its writers do")


def _are_filters(found: object) -> bool:
    """Whether the attribute of this name holds codecs, and not something of the user's."""
    return isinstance(found, list) and all(
        isinstance(one, dict) and isinstance(one.get("id"), str) for one in found
    )


def _grid(found: Any, also: Any) -> tuple[list[Any], str]:
    if not isinstance(found, dict):
        refuse("chunk_grid", f"found {describe(found)}, must be an object")
    kind = found.get("type", "regular")
    if "extension" in found:
        _refuse_extension("chunk_grid", found, "regular grids")
    if kind != "regular":
        refuse("chunk_grid.type", f'found {describe(kind)}, must be "regular"')
    edges = found.get("chunk_shape")
    if not isinstance(edges, list):
        refuse("chunk_grid.chunk_shape", f"found {describe(edges)}, must be a list of integers")
    separator = found.get("separator", also if also is not None else "/")
    if separator not in ("/", "."):
        refuse("chunk_grid.separator", f'found {describe(separator)}, must be "/" or "."')
    return edges, separator


def _refuse_extension(path: str, found: Json, known: str) -> None:
    """Extensions at these places have to be understood, always."""
    refuse(
        path,
        f"found {describe(found.get('type'))} of the extension {describe(found['extension'])}, which is not known; "
        f"{known} are read",
    )


def _codecs(found: Json, filters: list[Any], element: ElementType, ndim: int) -> list[Json]:
    order = found.get("chunk_memory_layout", "C")
    if isinstance(order, dict) and "extension" in order:
        _refuse_extension("chunk_memory_layout", order, 'the layouts "C" and "F"')
    if order not in ("C", "F"):
        refuse("chunk_memory_layout", f'found {describe(order)}, must be "C" or "F"')
    compressor = found.get("compressor")
    listed = found.get("codecs") or []
    if not isinstance(listed, list):
        refuse("codecs", f"found {describe(listed)}, must be a list")
    if compressor is not None and listed:
        refuse("compressor", "found beside `codecs`; only one of them can be meant")
    given = [_numcodecs(one, join("codecs", i)) for i, one in enumerate(listed)]
    kept: list[Json] = []
    turned = False
    for i, one in enumerate(given):
        if one["id"] != "endian":
            kept.append(one)
            continue
        said = one.get("endian")
        if kept or said not in ("little", "big"):
            refuse(join("codecs", i), 'the codec `endian` comes first, and says "little" or "big"')
        if said != element.endian:  # each takes what is before it for elements in the order of the data type
            turned = not turned
    if turned and element.endian is not None:
        endian: Literal["little", "big"] = "little" if element.endian == "big" else "big"
        element = ElementType(element.data_type, endian, element.dtype.newbyteorder(endian))
    last = kept[-1:] if listed else []
    rest = kept[:-1] if listed else []
    packed = last[0] if last else (None if compressor is None else _numcodecs(compressor, "compressor"))
    return chain_from_numcodecs([*filters, *rest], packed, element, order, ndim)


def _numcodecs(found: Any, path: str) -> Json:
    """{"codec": URI, "configuration"} and {"type": URI, ...} as numcodecs would say it."""
    if not isinstance(found, dict):
        refuse(path, f"found {describe(found)}, must be an object")
    if isinstance(found.get("id"), str):
        return found
    name = next((found[one] for one in ("codec", "type", "name") if isinstance(found.get(one), str)), None)
    if name is None:
        refuse(path, "found no codec, must be named by its URI")
    if "://" in name and not name.startswith("https://purl.org/zarr/spec/codec"):
        return {"id": name, **_configuration(found, path)}  # somebody's own
    parts = [part for part in name.rstrip("/").split("/") if part]
    if len(parts) > 1 and parts[-1].replace(".", "").lstrip("v").isdigit():
        parts.pop()
    if not parts:
        refuse(path, f"found {describe(name)}, must be the address of a codec")
    return {"id": parts[-1], **_configuration(found, path)}


def _configuration(found: Json, path: str) -> Json:
    configuration = found.get("configuration") or {}
    if not isinstance(configuration, dict) or "id" in configuration:
        refuse(
            join(path, "configuration"), f"found {describe(configuration)}, must be an object without an `id`"
        )
    return configuration


def _transformers(found: Any, ndim: int) -> tuple[list[list[int]], list[Json]]:
    """The chunks per shard of every sharding transformer, the nearest to the array first; then somebody's own."""
    if not isinstance(found, list):
        refuse("storage_transformers", f"found {describe(found)}, must be a list")
    counts: list[list[int]] = []
    own: list[Json] = []
    for i, one in enumerate(found):
        at = join("storage_transformers", i)
        if not isinstance(one, dict):
            refuse(at, f"found {describe(one)}, must be an object")
        name = one.get("extension", one.get("name"))
        plain = name.replace("-", "_") if isinstance(name, str) else ""
        configuration = one.get("configuration")
        if plain != "sharding" and "storage_transformers/sharding" not in plain:
            if "://" not in plain:
                refuse(
                    at, f"found {describe(name)}, which is not known, and without it chunks cannot be found"
                )
            members = configuration if isinstance(configuration, dict) else {}
            own.append({"name": name, "configuration": {"type": one.get("type"), **members}})
            continue
        if own:
            refuse(at, "found shards behind another transformer; they can only be nearer the array")
        if one.get("type", "indexed") != "indexed":
            refuse(join(at, "type"), f'found {describe(one["type"])}, must be "indexed"')
        value = configuration.get("chunks_per_shard") if isinstance(configuration, dict) else None
        counts.append(_counts(value, ndim, f"{at}.configuration.chunks_per_shard"))
    return counts, own


def _transformer(extension: Json) -> Json:
    """One of somebody's own, as the draft states it."""
    members = dict(extension.get("configuration") or {})
    kind = members.pop("type", None)
    return {"extension": extension["name"], "type": kind, "configuration": members}


def _counts(value: Any, ndim: int, path: str) -> list[int]:
    """Padded with ones, as zarr-python does."""
    allowed = f"must be a list of {ndim} integers >= 1"
    if not isinstance(value, list) or len(value) > max(1, ndim):
        refuse(path, f"found {describe(value)}, {allowed}")
    for one in value:
        if isinstance(one, bool) or not isinstance(one, int) or not 1 <= one < 1 << 31:
            refuse(path, f"found {describe(value)}, {allowed}")
    if not ndim and value not in ([], [1]):
        refuse(path, f"found {describe(value)}, an array without dimensions has one chunk")
    return (value + [1] * (ndim - len(value)))[:ndim]


def _unwrapped(codecs: list[Json]) -> tuple[list[int], list[Json]]:
    configuration = codecs[0]["configuration"]
    if len(codecs) > 1:
        refuse("codecs", "the draft has no codecs around shards")
    if configuration.get("index_location", "end") != "end":
        refuse("codecs[0].configuration.index_location", 'the draft has indexes at the "end" alone')
    if configuration["index_codecs"] != INDEX:
        refuse(
            "codecs[0].configuration.index_codecs",
            "the draft has plain little-endian indexes alone, no checksum",
        )
    return list(configuration["chunk_shape"]), configuration["codecs"]


def _fill(fill: Any, data_type: DataType, endian: str | None, way: Way) -> Any:
    if way == "P" or isinstance(data_type, Struct):
        return fill_to_numpy(fill, data_type, endian)
    if isinstance(data_type, RawBits):
        return "0x" + fill.tobytes().hex()
    value = data_type.fill_to_json(fill)
    if isinstance(data_type, Complex):
        return [_signed(one) for one in value]
    return _signed(value) if fill.dtype.kind == "f" else value


def _signed(value: Any) -> Any:
    return "+Infinity" if value == "Infinity" else value


def _stated(config: Json, way: Way, member: str) -> Json:
    identity = config["id"]
    if way == "P" and identity not in COMPRESSORS:
        sentence = f"zarr-python's draft knows {', '.join(COMPRESSORS)}, not {describe(identity)}"
        raise UnknownCodecError(f"compressor: {sentence}", (("compressor", sentence),))
    members = {name: value for name, value in config.items() if name != "id"}
    if identity == "blosc":
        members.setdefault("blocksize", 0)
    return {member: CODEC[way].format(identity), "configuration": members}


def _letter_codecs(filters: list[Json], compressor: Json | None, endian: str | None) -> list[Json]:
    """The draft's own codecs are endian, gzip and blosc."""
    given = [*filters, *([] if compressor is None else [compressor])]
    codecs = []
    if endian == "big":
        codecs.append({"type": CODEC["D"].format("endian"), "configuration": {"endian": "big"}})
    for config in given:
        if "://" in config["id"]:
            if endian == "big":
                refuse(
                    "codecs",
                    "the codec `endian` of the draft comes first; a codec of your own needs little-endian",
                )
            members = {name: value for name, value in config.items() if name != "id"}
            codecs.append({"type": config["id"], "configuration": members})
            continue
        if config["id"] not in ("gzip", "blosc"):
            raise MetadataError(
                f"codecs: the letter of the draft knows gzip and blosc, not {describe(config['id'])}; "
                'compressors="gzip", or dialect="P"'
            )
        codecs.append(_stated(config, "D", "type"))
    return codecs
