"""import: copy a file of another format (npy, NIfTI, netCDF, HDF5, TIFF) into a new array."""

from __future__ import annotations

import argparse

from terrazzo.cli.making import add_making, making
from terrazzo.cli.output import address_shown, print_json, print_lines
from terrazzo.cli.show import array_json
from terrazzo.drawing import printable
from terrazzo.errors import SourceError
from terrazzo.importing import FORMATS, import_array

__all__ = ["NAME", "add_arguments", "run"]

NAME = "import"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a local file")
    parser.add_argument("destination", metavar="URL", help="where the array goes")
    parser.add_argument("--variable", metavar="NAME", help="which array, where the file holds several")
    parser.add_argument(
        "--format", choices=[entry.name for entry in FORMATS], help="where the file does not tell"
    )
    add_making(parser, "auto")


def run(arguments: argparse.Namespace) -> int:
    try:
        array = import_array(
            arguments.file,
            arguments.destination,
            variable=arguments.variable,
            format=arguments.format,
            **making(arguments),
        )
    except SourceError as error:
        raise type(error)(str(error).replace("(format=)", "(--format)")) from error
    array.store.close()  # an archive appears when it is closed
    if arguments.json:
        print_json(array_json(array, arguments.destination))
    elif not arguments.quiet:
        shape = " × ".join(f"{n:,}" for n in array.shape) or "scalar"
        place = arguments.destination + (f"/{arguments.name}" if arguments.name else "")
        print_lines(f"{printable(address_shown(place))}: {shape} {array.metadata.data_type}")
    return 0
