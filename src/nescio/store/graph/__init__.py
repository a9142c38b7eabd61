"""A network as a list of plain operations and the tensors they use: kept in a file, and run without its code.

What a file may ask for is settled by a rule (`rule.py`). The steps are run one by one; nothing in a file becomes code.
"""

from nescio.store.graph.export import exported
from nescio.store.graph.file import read_graph, write_graph
from nescio.store.graph.graph import Graph
from nescio.store.graph.steps import Plan, Step

__all__ = ["Graph", "Plan", "Step", "exported", "read_graph", "write_graph"]
