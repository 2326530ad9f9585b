"""The public names, as data: what `import terrazzo` offers, and what zarr-python's scripts expect of it."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import terrazzo
import terrazzo.api.asynchronous
import terrazzo.storage

#: names of terrazzo alone
OURS = {
    *(
        "Append",
        "InPlace",
        "Limits",
        "Options",
        "Replace",
        "__version__",
        "api",
        "codecs",
        "errors",
        "move",
        "storage",
    ),
    *(
        "register_chunk_grid",
        "register_chunk_keys",
        "register_codec",
        "register_data_type",
        "register_transformer",
    ),
}
#: names of zarr-python 3
THEIRS = {
    *(
        "Array",
        "AsyncArray",
        "AsyncGroup",
        "Group",
        "array",
        "config",
        "consolidate_metadata",
        "copy",
        "copy_all",
    ),
    *("copy_store", "create", "create_array", "create_group", "create_hierarchy", "empty", "empty_like"),
    *("from_array", "full", "full_like", "group", "load", "ones", "ones_like", "open", "open_array"),
    *("open_consolidated", "open_group", "open_like", "print_debug_info", "save", "save_array", "save_group"),
    *("tree", "zeros", "zeros_like"),
}
STORAGE = {"LocalStore", "LoggingStore", "MemoryStore", "StoreLike", "StorePath", "WrapperStore", "ZipStore"}
ERRORS = (
    "ArrayIndexError ArrayNotFoundError BoundsCheckError ChunkNotFoundError ContainsArrayError ContainsGroupError "
    "DataTypeValidationError GroupNotFoundError MetadataValidationError NegativeStepError NodeNotFoundError "
    "NodeTypeValidationError UnknownCodecError VindexInvalidSelectionError"
)
ARRAY = (
    "append async_array attrs basename blocks cdata_shape chunks compressors config dtype fill_value filters from_dict "
    "get_basic_selection get_block_selection get_coordinate_selection get_mask_selection get_orthogonal_selection info "
    "info_complete metadata name nbytes nbytes_stored nchunks nchunks_initialized ndim oindex open order path "
    "read_chunk_sizes read_only resize serializer set_basic_selection set_block_selection set_coordinate_selection "
    "set_mask_selection set_orthogonal_selection shape shards size store store_path update_attributes vindex "
    "with_config write_chunk_sizes"
)
GROUP = (
    "array_keys array_values arrays attrs basename create create_array create_group create_hierarchy empty empty_like "
    "from_store full full_like get get_array get_group group_keys group_values groups info info_complete keys members "
    "metadata move name nmembers ones ones_like open path read_only require_array require_group require_groups store "
    "store_path tree update_attributes zeros zeros_like"
)
#: the keyword names of zarr-python's functions
KEYWORDS = {
    "create_array": "name shape dtype data chunks shards filters compressors serializer fill_value order zarr_format "
    "attributes chunk_key_encoding dimension_names storage_options overwrite config write_data",
    "from_array": "data write_data name chunks shards filters compressors serializer",
    "create_group": "path zarr_format overwrite attributes storage_options",
    "create_hierarchy": "store nodes overwrite",
    "open": "mode zarr_format path storage_options",
    "open_array": "zarr_format path storage_options config",
    "open_group": "mode path storage_options zarr_format attributes use_consolidated cache_attrs synchronizer "
    "chunk_store meta_array",
    "consolidate_metadata": "path zarr_format",
    "load": "path zarr_format",
    "save": "zarr_format path storage_options",
    "save_array": "arr zarr_format path storage_options",
    "save_group": "zarr_format path storage_options",
    "tree": "grp expand level",
    "group": "overwrite path zarr_format attributes storage_options",
}


def test_the_names_are_these() -> None:
    assert set(terrazzo.__all__) == OURS | THEIRS
    assert all(hasattr(terrazzo, name) for name in terrazzo.__all__)
    assert terrazzo.__all__ == sorted(terrazzo.__all__)
    public = {
        name
        for name in vars(terrazzo)
        if not name.startswith("_") and not inspect.ismodule(vars(terrazzo)[name])
    }
    assert public <= set(terrazzo.__all__)


def test_stores_and_errors_have_zarr_pythons_names() -> None:
    assert set(terrazzo.storage.__all__) >= STORAGE
    assert all(hasattr(terrazzo.errors, name) for name in ERRORS.split())


@pytest.mark.parametrize("kind, names", [(terrazzo.Array, ARRAY), (terrazzo.Group, GROUP)])
def test_members_have_zarr_pythons_names(kind: type, names: str) -> None:
    assert [name for name in names.split() if not hasattr(kind, name)] == []


@pytest.mark.parametrize("function, names", KEYWORDS.items())
def test_arguments_have_zarr_pythons_names(function: str, names: str) -> None:
    parameters = inspect.signature(getattr(terrazzo, function)).parameters
    assert [name for name in names.split() if name not in parameters] == []


def test_every_public_function_is_described() -> None:
    for name in terrazzo.__all__:
        found = getattr(terrazzo, name)
        if inspect.isfunction(found) or inspect.isclass(found):
            assert found.__doc__, name
    for kind in (terrazzo.Array, terrazzo.Group):
        for name, member in inspect.getmembers(kind, inspect.isfunction):
            if name in (
                "oindex",
                "array_keys",
                "group_keys",
                "array_values",
                "group_values",
            ) or name.startswith("_"):
                continue
            assert member.__doc__, f"{kind.__name__}.{name}"


def test_config_is_the_settings_and_stays_importable() -> None:
    from terrazzo.config import config

    assert terrazzo.config is config


def test_import_needs_numpy_alone() -> None:
    program = (
        "import sys, terrazzo\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'numcodecs', 'h5py', 'rich', 'ml_dtypes', "
        "'netCDF4', 'tifffile', 'nibabel', 'zarr'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


#: modules of the standard library that take long to import, and that no read or write of an array needs
SLOW = (
    *("asyncio", "concurrent.futures", "ctypes.util", "difflib", "email", "hashlib", "html", "http"),
    *(
        "importlib.metadata",
        "inspect",
        "logging",
        "multiprocessing",
        "platform",
        "random",
        "shutil",
        "socket",
    ),
    *("ssl", "subprocess", "tempfile", "typing_extensions", "uuid", "xml", "zipfile"),
)


@pytest.mark.parametrize(
    "work", ["", "array = terrazzo.create_array('a.zarr', data=np.arange(9)); array[2:5]"]
)
def test_slow_modules_wait_until_they_are_needed(tmp_path: Path, work: str) -> None:
    program = (
        f"import sys, numpy as np\nbefore = set(sys.modules)\nimport terrazzo\n{work}\n"
        f"print(sorted((set(sys.modules) - before) & set({SLOW!r})))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr == ""
    assert done.stdout.strip() == "[]"


def test_what_waits_is_there() -> None:
    assert terrazzo.AsyncArray.__name__ == "AsyncArray"
    assert terrazzo.AsyncGroup.__name__ == "AsyncGroup"
    assert terrazzo.api.synchronous.create_array is terrazzo.create_array
    assert terrazzo.storage.ZipStore.__name__ == "ZipStore"
    assert isinstance(terrazzo.__version__, str)
    assert set(terrazzo.__all__) <= set(dir(terrazzo))
    for module in (terrazzo, terrazzo.api, terrazzo.storage):
        with pytest.raises(AttributeError, match="'nothing'"):
            _ = module.nothing


def test_debug_information_names_the_versions(capsys: pytest.CaptureFixture[str]) -> None:
    terrazzo.print_debug_info()
    text = capsys.readouterr().out
    assert "terrazzo:" in text and "numpy:" in text and "numcodecs:" in text
