"""A network as elementary operations and tensors: kept in a file, and run without its code.

What a file may ask for is checked before (`rule.py`); nothing in a file becomes code.
"""

from nescio.store.graph.export import exported
from nescio.store.graph.graph import Graph, read_graph, write_graph
from nescio.store.graph.rule import GraphPlan, Step

__all__ = ["Graph", "GraphPlan", "Step", "exported", "read_graph", "write_graph"]
