"""Every reader against the library that wrote the file: shape, type, names, attributes, and any selection."""

from __future__ import annotations

import base64
import gzip
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from terrazzo.errors import SourceError
from terrazzo.importing.formats import FORMATS, open_source
from terrazzo.importing.source import Imported, fill_attribute, json_attributes, plain

Array = np.ndarray[Any, Any]


def check_selections(source: Imported, expected: Array) -> None:
    """The whole, single elements, and boxes that start and stop anywhere."""
    assert source.shape == expected.shape
    assert source.dtype.byteorder in "=|"
    rng = np.random.default_rng(3)
    boxes = [tuple(slice(0, n) for n in expected.shape)]
    for _ in range(12):
        starts = [int(rng.integers(0, n + 1)) for n in expected.shape]
        boxes.append(
            tuple(slice(a, int(rng.integers(a, n + 1))) for a, n in zip(starts, expected.shape, strict=True))
        )
    for box in boxes:
        found = source.read(box)
        assert found.dtype == source.dtype
        np.testing.assert_array_equal(found, expected[box])


# npy


@pytest.mark.parametrize(
    "values",
    [
        np.arange(60, dtype="<i4").reshape(3, 4, 5),
        np.asfortranarray(np.arange(60, dtype=">f8").reshape(3, 4, 5)),
        np.array(5.0),
        np.zeros((0, 3), np.uint8),
        np.array(["a", "bcd"]),
    ],
)
def test_npy(tmp_path: Path, values: Array) -> None:
    path = tmp_path / "a.npy"
    np.save(path, values)
    with open_source(path) as source:
        check_selections(source, values)


def test_npy_is_mapped_and_never_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "sparse.npy"
    with path.open("wb") as file:
        np.lib.format.write_array_header_2_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (1 << 20, 1 << 10)}
        )
        file.truncate(file.tell() + (1 << 33))  # 8 GiB with no bytes behind them
    with open_source(path) as source:
        assert source.read((slice(999_999, 1_000_001), slice(0, 3))).tolist() == [[0.0] * 3] * 2


def test_npy_refuses_objects_and_short_files(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.array([{}, []], dtype=object), allow_pickle=True)
    with pytest.raises(SourceError, match="would have to be unpickled"):
        open_source(path)
    np.save(path, np.arange(100))
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(
        SourceError, match=r"says \(100,\) of int64, 800 bytes, and holds 792: it was cut short"
    ):
        open_source(path)
    path.write_bytes(b"\x93NUMPY\x01\x00")
    with pytest.raises(SourceError, match="is not a whole npy file"):
        open_source(path)
    with pytest.raises(SourceError, match="leave 'x' out"):
        open_source(path, "x")


# NIfTI


@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
def test_nifti(tmp_path: Path, ending: str) -> None:
    nibabel = pytest.importorskip("nibabel")
    values = np.random.default_rng(0).integers(0, 1000, (5, 6, 7, 2)).astype(">i2")
    affine = np.diag([2.0, 2.0, 3.0, 1.0])
    image = nibabel.Nifti1Image(values, affine)
    image.header.set_slope_inter(0.5, 10.0)
    path = tmp_path / f"a{ending}"
    nibabel.save(image, path)
    raw = np.asarray(nibabel.load(path).dataobj.get_unscaled())
    with open_source(path) as source:
        assert source.dimension_names == ("x", "y", "z", "t")
        assert source.attributes["nifti"]["affine"] == affine.tolist()
        assert source.attributes["scale_factor"] == 0.5
        assert source.attributes["add_offset"] == 10.0
        check_selections(source, raw)


def test_nifti_colours_become_a_dimension(tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel")
    values = np.random.default_rng(0).integers(0, 256, (4, 5, 6, 3)).astype(np.uint8)
    rgb = values.view([("R", "u1"), ("G", "u1"), ("B", "u1")])[..., 0]
    path = tmp_path / "a.nii"
    nibabel.save(nibabel.Nifti1Image(rgb, np.eye(4)), path)
    with open_source(path) as source:
        assert source.dimension_names == ("x", "y", "z", "channel")
        check_selections(source, values)


def test_nifti_that_was_cut_short(tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel")
    path = tmp_path / "a.nii"
    nibabel.save(nibabel.Nifti1Image(np.ones((20, 20, 20), np.float32), np.eye(4)), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    with pytest.raises(SourceError, match="cut short"):
        open_source(path)
    packed = tmp_path / "b.nii.gz"
    packed.write_bytes(gzip.compress(whole[:-100]))
    with pytest.raises(SourceError, match="cut short"):
        open_source(packed)
    packed.write_bytes(gzip.compress(np.random.default_rng(0).bytes(5000))[:-500])
    with pytest.raises(SourceError, match="is not a NIfTI file that can be read"):
        open_source(packed)


def test_nifti_that_declares_more_than_its_file_could_hold(tmp_path: Path) -> None:
    pytest.importorskip("nibabel")
    header = bytearray(352)
    struct.pack_into("<i", header, 0, 348)
    struct.pack_into("<8h", header, 40, 3, 30000, 30000, 30000, 1, 1, 1, 1)
    struct.pack_into("<hh", header, 70, 16, 32)  # float32
    struct.pack_into("<f", header, 108, 352.0)
    header[344:348] = b"n+1\0"
    path = tmp_path / "a.nii.gz"
    path.write_bytes(gzip.compress(bytes(header)))
    with pytest.raises(SourceError, match="too small for the 108,000,000,000,000 bytes"):
        open_source(path)


# netCDF


@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_64BIT_OFFSET"])
def test_netcdf_keeps_raw_values_and_their_meaning(tmp_path: Path, kind: str) -> None:
    netCDF4 = pytest.importorskip("netCDF4")
    path = tmp_path / "a.nc"
    raw = np.random.default_rng(0).integers(-1000, 1000, (4, 6)).astype("i2")
    with netCDF4.Dataset(path, "w", format=kind) as file:
        for name, extent in (("time", 4), ("lat", 6)):
            file.createDimension(name, extent)
        file.createVariable("lat", "f4", ("lat",))[:] = np.linspace(-90, 90, 6)
        held = file.createVariable("t2m", "i2", ("time", "lat"), fill_value=-32767)
        held.units, held.scale_factor, held.add_offset = "K", 0.01, 273.15
        held.set_auto_maskandscale(False)
        held[:] = raw
    with open_source(path) as source:
        assert source.variable == "t2m"
        assert source.dimension_names == ("time", "lat")
        assert source.attributes == {
            "units": "K",
            "scale_factor": 0.01,
            "add_offset": 273.15,
            "_FillValue": -32767,
        }
        assert source.fill_value == -32767
        check_selections(source, raw)
    with open_source(path, "lat") as source:
        assert source.shape == (6,)


def test_netcdf_groups_strings_and_choices(tmp_path: Path) -> None:
    netCDF4 = pytest.importorskip("netCDF4")
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 3)
        group = file.createGroup("forecast")
        group.createVariable("wind", "f4", ("x",), fill_value=np.nan)[:] = [1, 2, 3]
        names = group.createVariable("station", str, ("x",))
        names[:] = np.array(["a", "Zürich", ""], dtype=object)
    with pytest.raises(
        SourceError, match="holds 2 variables, and one has to be chosen: 'forecast/wind', 'forecast/station'"
    ):
        open_source(path)
    with pytest.raises(SourceError, match="did you mean 'forecast/wind'"):
        open_source(path, "forecast/wnd")
    with open_source(path, "forecast/station") as source:
        assert source.dtype.kind == "T"
        check_selections(source, np.array(["a", "Zürich", ""], np.dtypes.StringDType()))
    with open_source(path, "/forecast/wind") as source:
        assert base64.b64decode(source.attributes["_FillValue"]) == struct.pack("<d", np.nan)
        assert np.isnan(source.fill_value)


# HDF5


def test_hdf5(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    values = np.random.default_rng(0).normal(size=(20, 30)).astype(">f4")
    with h5py.File(path, "w") as file:
        held = file.create_dataset(
            "deep/er/values", data=values, chunks=(6, 7), compression="gzip", fillvalue=-1
        )
        held.attrs["units"] = np.bytes_(b"m")
        held.attrs["range"] = np.array([0.0, np.inf])
        scale = file.create_dataset("deep/er/row", data=np.arange(20))
        scale.make_scale("row")
        held.dims[0].attach_scale(scale)
        held.dims[1].label = "column"
    with open_source(path) as source:
        assert source.variable == "deep/er/values"
        assert source.chunks == (6, 7)
        assert source.dimension_names == ("row", "column")
        assert source.attributes == {"units": "m", "range": [0.0, "Infinity"]}
        assert source.fill_value == -1
        check_selections(source, values)


def test_hdf5_types(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["text"] = ["a", "Zürich"]
        file["fixed"] = np.array([b"ab", b"c"])
        file["flags"] = np.array([True, False])
        file["scalar"] = 7
        file.create_dataset("kind", data=[1, 0], dtype=h5py.enum_dtype({"sea": 0, "dry land": 1}, "i1"))
        file["compound"] = np.zeros(2, [("a", "i4")])
        file.create_dataset("empty", data=h5py.Empty("f4"))
    expected = {
        "text": np.array(["a", "Zürich"], np.dtypes.StringDType()),
        "fixed": np.array([b"ab", b"c"]),
        "flags": np.array([True, False]),
        "scalar": np.array(7),
        "kind": np.array([1, 0], np.int8),
    }
    for name, values in expected.items():
        with open_source(path, name) as source:
            check_selections(source, values)
            if name == "kind":
                assert source.attributes == {"flag_values": [0, 1], "flag_meanings": "sea dry_land"}
    with pytest.raises(SourceError, match="'compound' has the type"):
        open_source(path, "compound")
    with pytest.raises(SourceError, match="has no dataset 'empty'"):
        open_source(path, "empty")


# TIFF


@pytest.mark.parametrize(
    "shape, options",
    [
        ((30, 41), {}),
        ((30, 41), {"compression": "zlib", "rowsperstrip": 7}),
        ((70, 90), {"tile": (32, 32), "compression": "zlib", "predictor": True}),
        ((70, 90, 3), {"tile": (32, 32), "compression": "zlib", "photometric": "rgb"}),
        (
            (3, 70, 90),
            {"tile": (32, 32), "compression": "zlib", "photometric": "rgb", "planarconfig": "separate"},
        ),
        ((5, 40, 50), {"compression": "zlib", "photometric": "minisblack", "byteorder": ">"}),
        ((2, 3, 40, 50), {"compression": "zlib", "photometric": "minisblack", "imagej": False}),
        ((4, 33, 47), {"photometric": "minisblack", "byteorder": ">"}),
    ],
)
def test_tiff(tmp_path: Path, shape: tuple[int, ...], options: dict[str, Any]) -> None:
    tifffile = pytest.importorskip("tifffile")
    values = np.random.default_rng(0).integers(0, 60000, shape).astype(np.uint16)
    path = tmp_path / "a.tif"
    options = {key: value for key, value in options.items() if value is not False}
    byteorder = options.pop("byteorder", None)
    with tifffile.TiffWriter(path, byteorder=byteorder) as file:
        file.write(values, **options)
    with open_source(path) as source:
        check_selections(source, values)


def test_tiff_reads_only_the_tiles_it_needs(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    path = tmp_path / "a.tif"
    values = np.random.default_rng(0).integers(0, 255, (512, 512)).astype(np.uint8)
    tifffile.imwrite(path, values, tile=(64, 64), compression="zlib")
    with open_source(path) as source:
        assert source.chunks == (64, 64)
        asked: list[int] = []
        page = source._series.keyframe  # type: ignore[attr-defined]
        decode = page.decode
        page.decode = lambda encoded, index, **more: (asked.append(index), decode(encoded, index, **more))[1]
        source.read((slice(60, 70), slice(130, 140)))
    assert sorted(asked) == [2, 10]


def test_tiff_series_and_levels(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    path = tmp_path / "a.tif"
    first, second = np.zeros((20, 30), np.uint8), np.ones((5, 6, 7), np.float32)
    with tifffile.TiffWriter(path) as file:
        file.write(first)
        file.write(second, photometric="minisblack")
    with open_source(path) as source:
        check_selections(source, first)
    with open_source(path, "1") as source:
        check_selections(source, second)
    for variable, message in (
        ("7", "has 2 series, 0 to 1"),
        ("0.3", "has 1 levels"),
        ("x", "not the number"),
    ):
        with pytest.raises(SourceError, match=message):
            open_source(path, variable)


# choosing


@pytest.mark.parametrize("ending", [".npy", ".nii", ".nii.gz", ".nc", ".h5", ".tif"])
def test_files_that_are_not_what_their_name_says(tmp_path: Path, ending: str) -> None:
    for package in ("nibabel", "netCDF4", "h5py", "tifffile"):
        pytest.importorskip(package)
    path = tmp_path / f"a{ending}"
    for content in (b"", b"\x00" * 2000, b"not an array at all\n" * 100):
        path.write_bytes(content)
        with pytest.raises(SourceError):
            open_source(path)


def test_the_first_bytes_count_where_the_ending_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    with path.open("wb") as file:
        np.save(file, np.arange(4))
    with open_source(path) as source:
        assert source.read((slice(1, 3),)).tolist() == [1, 2]
    unnamed = tmp_path / "unnamed"
    unnamed.write_bytes(b"????")
    with pytest.raises(SourceError, match="of no known format \\(npy, nifti, netcdf, hdf5, tiff\\)"):
        open_source(unnamed)
    with pytest.raises(SourceError, match="format 'grib' is not known"):
        open_source(unnamed, format="grib")


def test_places_that_are_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no file"):
        open_source(tmp_path / "nothing.npy")
    with pytest.raises(SourceError, match="is a folder"):
        open_source(tmp_path)
    with pytest.raises(SourceError, match="download it first"):
        open_source("https://example.org/a.nc")
    np.save(tmp_path / "a b.npy", np.arange(3))
    with open_source((tmp_path / "a b.npy").as_uri()) as source:
        assert source.shape == (3,)


def test_a_missing_package_is_named_with_what_to_install(tmp_path: Path) -> None:
    path = tmp_path / "a.nii"
    path.write_bytes(b"\0" * 400)
    code = (
        "import sys; sys.modules['nibabel'] = None\n"
        "from terrazzo.importing.formats import open_source\n"
        f"try: open_source({str(path)!r})\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (
        done.stdout.strip() == "reading NIfTI files needs the package nibabel: pip install 'terrazzo[nifti]'"
    )


def test_every_format_has_its_file_and_its_extra() -> None:
    assert [entry.name for entry in FORMATS] == ["npy", "nifti", "netcdf", "hdf5", "tiff"]
    assert all(entry.extra or entry.name == "npy" for entry in FORMATS)


# attributes


def test_attributes_become_what_json_can_hold() -> None:
    found = json_attributes(
        {
            "a": np.float32(1.5),
            "b": np.array([[1, 2]]),
            "c": b"text\0",
            "d": np.nan,
            "e": -np.inf,
            "f": object(),
            "g": np.array("x"),
            "h": 1 + 2j,
            "CLASS": "x",
        },
        leave=["CLASS"],
    )
    assert found == {
        "a": 1.5, "b": [[1, 2]], "c": "text", "d": "NaN", "e": "-Infinity", "g": "x", "h": [1.0, 2.0]
    }  # fmt: skip
    assert plain({"k": (True, None)}) == {"k": [True, None]}
    assert fill_attribute(np.int16(-5)) == -5
    assert fill_attribute(np.float32(0)) == "AAAAAAAAAAA="
