"""A second pass over an array that is larger than memory.

Chunks that two passes share would wait in memory, or on the disk of a cluster, for the second one:
all of them where it needs what the first one says of the whole array. Made again from what they
come from, they need not wait. ``dask.graph_manipulation.bind`` is for this, but leaves tasks of
dask's current kind in the layers of rechunking and the like as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dask.array as da
from dask._task_spec import DataNode, GraphNode, Task, TaskRef, convert_legacy_graph
from dask.base import clone_key, tokenize
from dask.graph_manipulation import checkpoint
from dask.highlevelgraph import HighLevelGraph

__all__ = ["made_again"]

Array = Any


def made_again(x: Array, after: Sequence[Array]) -> Array:
    """Return an array whose tasks are those of another one, a second time, after other arrays.

    Parameters
    ----------
    x : dask array
        The array. What it holds in memory is shared; if that is all, it is returned itself.
    after : sequence of dask array
        What is computed before the first task.
    """
    graph = x.__dask_graph__()
    if _is_shuffled(graph):
        # the tasks of a shuffle of a cluster know each other by their keys, and share disks
        return x
    known = dict(graph)
    tasks = convert_legacy_graph(
        {key: node for key, node in known.items() if _is_task(node)}, all_keys=known.keys()
    )
    if not any(isinstance(task, Task) for task in tasks.values()):
        return x
    seed = tokenize(x.name, [array.name for array in after])
    renamed = {key: clone_key(key, seed) for key in tasks}
    blocker = checkpoint(*after)
    again = {
        renamed[key]: _renamed(task, renamed, renamed[key], blocker.key)
        for key, task in tasks.items()
    }
    name = clone_key(x.name, seed)
    graph = HighLevelGraph.from_collections(name, again, dependencies=[blocker, x])
    return da.Array(graph, name, x.chunks, dtype=x.dtype, meta=x._meta)


def _is_shuffled(graph: Mapping[Any, Any]) -> bool:
    layers = getattr(graph, "layers", {})
    return any(type(layer).__module__.startswith("distributed.") for layer in layers.values())


def _is_task(node: object) -> bool:
    """Whether a node of a graph is computed; it is data otherwise, or a future that holds some."""
    return isinstance(node, GraphNode | tuple | list) and not isinstance(node, DataNode)


def _renamed(task: GraphNode, renamed: Mapping[Any, Any], key: Any, blocker: Any) -> GraphNode:
    """Return a task under another key; the first of all wait for a key."""
    again = task.substitute(renamed, key=key)
    if isinstance(again, Task) and renamed.keys().isdisjoint(task.dependencies):
        return Task(key, _first, again, TaskRef(blocker))
    return again


def _first(result: Any, waited_for: None) -> Any:
    return result
