"""`nescio data`: the data sets that are known by name."""

from typing import Annotated

import typer
from rich.markup import escape

from nescio.cli.names import complete
from nescio.cli.options import Command, Force, Group, Json, Root
from nescio.cli.output import out, print_json, show

data_app = typer.Typer(cls=Group, no_args_is_help=True, help="List the data sets, or download one.")


@data_app.command("list", cls=Command)
def data_list(root: Root = None, json: Json = False) -> None:
    """List every data set: its name, whether it is available, and where.

    Examples:
        nescio data list
    """
    from nescio.data import status
    from nescio.report.table import Cell, Styled, Table

    rows: list[list[Cell]] = []
    entries = status(root)
    print_json([vars(one) | {"where": one.where and str(one.where)} for one in entries])
    for entry in entries:
        missing = "get" if entry.downloadable else "no"
        here = Styled("yes", style="green") if entry.present else Styled(missing, style="yellow")
        rows.append([entry.name, entry.kind, here, str(entry.where or ""), entry.about])
    out.print(Table("data sets", ("name", "kind", "here", "where", "what"), rows))


@data_app.command("get", cls=Command)
def data_get(
    name: Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete("NAMES"))],
    root: Root = None,
    force: Force = False,
) -> None:
    """Download a data set and verify its published checksum; resumes if interrupted.

    Args:
        name: A name from `nescio data list`.

    Examples:
        nescio data get mnist
    """
    from nescio.data import download
    from nescio.progress import bar

    with bar(None, f"get {name}") as shown:
        paths = download(name, root, progress=lambda file, done, total: shown.at(done, total, file))
    for path in paths:
        show(f"Available: {escape(str(path))}")
