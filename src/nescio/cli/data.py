"""`nescio data`: the data sets that are known by name."""

from typing import Annotated

import typer
from rich.markup import escape

from nescio.cli.arguments import Force, out
from nescio.cli.options import Root

data_app = typer.Typer(
    no_args_is_help=True, help="The data sets nescio knows: which are here, and how to get others."
)


@data_app.command("list")
def data_list(root: Root = None) -> None:
    """Every data set by name, whether it is here, and where.

    Example: `nescio data list`
    """
    from nescio.data import status
    from nescio.report.table import Cell, Styled, Table

    rows: list[list[Cell]] = []
    for one in status(root):
        missing = "get" if one.downloadable else "no"
        here = Styled("yes", style="green") if one.present else Styled(missing, style="yellow")
        rows.append([one.name, one.kind, here, str(one.where or ""), one.about])
    out.print(Table("data sets", ("name", "kind", "here", "where", "what"), rows))


@data_app.command("get")
def data_get(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A name of `nescio data list`.", show_default=False),
    ],
    root: Root = None,
    force: Force = False,
) -> None:
    """Download a data set, checked against its published checksum; a cut download goes on where it stopped.

    Example: `nescio data get mnist`
    """
    from nescio.data import download
    from nescio.progress import bar

    with bar(None, f"get {name}") as shown:
        paths = download(name, root, progress=lambda file, done, total: shown.at(done, total, file))
    for path in paths:
        out.print(f"Here: {escape(str(path))}", soft_wrap=True)
