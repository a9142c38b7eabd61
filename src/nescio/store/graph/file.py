"""Graphs as files: tensors in safetensors, steps as JSON."""

import os
from collections.abc import Sequence

from torch import Tensor

from nescio.core.tensorfile import read_tensors, write_tensors
from nescio.errors import NescioError
from nescio.records import from_plain, to_plain
from nescio.store.graph.graph import Graph
from nescio.store.graph.steps import GraphPlan

KIND = "graph"


def write_graph(path: str | os.PathLike[str], plan: GraphPlan, tensors: Sequence[Tensor]) -> None:
    """Keep a network in a file."""
    named = {str(index): tensor for index, tensor in enumerate(tensors)}
    write_tensors(path, KIND, named, {"plan": to_plain(plan)})


def read_graph(path: str | os.PathLike[str]) -> Graph:
    """Read a network, in eval mode; an error, before anything is run, if it may not be."""
    tensors, header = read_tensors(path, KIND, ("plan",))
    where = repr(os.fspath(path))
    plan: GraphPlan = from_plain(GraphPlan, header.get("plan"), where)
    if tensors.keys() != {str(index) for index in range(len(plan.parameters))}:
        raise NescioError(f"{where} lacks tensors of its graph, or has others")
    try:
        return Graph(plan, [tensors[str(index)] for index in range(len(tensors))]).eval()
    except NescioError as error:
        raise NescioError(f"{where}: {error}") from error
