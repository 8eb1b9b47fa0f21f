"""Quantized arrays as collections of dask: ``dask.compute(q)``, ``dask.persist(q)``.

The protocol is that of https://docs.dask.org/en/stable/custom-collections.html. Dask is imported
by none of it before a part of an array is one of dask's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

__all__ = ["DaskCollection"]


class DaskCollection:
    """What dask asks of a quantized array; one without arrays of dask is no collection to it."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _parts(self) -> tuple[Any, Any, Any, Any]: ...
        def _static(self) -> tuple[Any, ...]: ...
        def _with_parts(self, *parts: Any) -> Self: ...

    def compute(self, **kwargs: Any) -> Self:
        """Return the array with parts in memory; itself where they are.

        Parameters
        ----------
        **kwargs
            As for ``dask.compute``: ``scheduler``, ``optimize_graph`` and what the scheduler takes.

        Returns
        -------
        QuantizedArray
            NumPy's arrays, or those of the library that the chunks are of.
        """
        if not self._lazy_parts():
            return self
        import dask

        (computed,) = dask.compute(self, **kwargs)
        return computed  # type: ignore[no-any-return]

    def persist(self, **kwargs: Any) -> Self:
        """Return the array with all chunks of its parts computed and kept, on a cluster there.

        Parameters
        ----------
        **kwargs
            As for ``dask.persist``.
        """
        if not self._lazy_parts():
            return self
        import dask

        (persisted,) = dask.persist(self, **kwargs)
        return persisted  # type: ignore[no-any-return]

    def _lazy_parts(self) -> list[Any]:
        return [part for part in self._parts() if _is_lazy(part)]

    def _outputs(self) -> tuple[Any, ...]:
        """Return the parts, those of dask as ends of the graph of all.

        Data is made with the help of scales, so that a layer of scales may lie inside that graph;
        dask takes only its ends for what is asked of one collection, and fuses the rest.
        """
        lazy = self._lazy_parts()
        # arrays of dask's expressions, an option of dask, have no layers
        if len(lazy) < 2 or not all(hasattr(part, "__dask_layers__") for part in lazy):
            return self._parts()
        from dask.highlevelgraph import HighLevelGraph

        graph = HighLevelGraph.merge(*(part.__dask_graph__() for part in lazy))
        inside = set().union(*graph.dependencies.values())
        return tuple(
            part.map_blocks(_itself, dtype=part.dtype, meta=part)
            if _is_lazy(part) and not inside.isdisjoint(part.__dask_layers__())
            else part
            for part in self._parts()
        )

    def __dask_graph__(self) -> Mapping[Any, Any] | None:
        """Return the graphs of all parts, None where there are none."""
        if not self._lazy_parts():
            return None
        from dask.highlevelgraph import HighLevelGraph

        graph: Mapping[Any, Any] = HighLevelGraph.merge(
            *(part.__dask_graph__() for part in filter(_is_lazy, self._outputs()))
        )
        return graph

    def __dask_keys__(self) -> list[Any]:
        """Return the keys of each part."""
        return [part.__dask_keys__() for part in self._outputs() if _is_lazy(part)]

    def __dask_layers__(self) -> tuple[str, ...]:
        """Return the names of the layers that make the parts."""
        parts = filter(_is_lazy, self._outputs())
        return tuple(name for part in parts for name in part.__dask_layers__())

    @property
    def __dask_optimize__(self) -> Callable[..., Any]:
        """The optimization of the parts; the same object, so that dask optimizes them together."""
        return self._first().__dask_optimize__  # type: ignore[no-any-return]

    @property
    def __dask_scheduler__(self) -> Callable[..., Any]:
        """The scheduler of the parts."""
        return self._first().__dask_scheduler__  # type: ignore[no-any-return]

    def _first(self) -> Any:
        parts = self._lazy_parts()
        if not parts:
            raise AttributeError("no part of this array is one of dask's")
        return parts[0]

    def __dask_postcompute__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return what makes an array of computed chunks."""
        return _computed, self._finishing("__dask_postcompute__")

    def __dask_postpersist__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return what makes an array of chunks that are kept."""
        return _persisted, (*self._finishing("__dask_postpersist__"), self.__dask_keys__())

    def _finishing(self, protocol: str) -> tuple[tuple[_Finish, ...], Any]:
        """Return how each part is finished, and what is no part."""
        finishes = (
            _Finish(*getattr(part, protocol)()) if _is_lazy(part) else _Finish(None, part)
            for part in self._outputs()
        )
        return tuple(finishes), self._static()

    def __dask_tokenize__(self) -> object:
        """Return what tells this array from others, the same in every process."""
        from dask.base import normalize_token

        scheme, *rest = self._static()
        # pickled schemes may differ by the identity of what they hold, their text does not
        return normalize_token((type(self).__name__, self._parts(), str(scheme.to_dict()), rest))


def _itself(chunk: Any) -> Any:
    return chunk


class _Finish(NamedTuple):
    """What makes a part of the results of its chunks: a function and what else it takes.

    None and the part itself where it is no array of dask.
    """

    function: Callable[..., Any] | None
    rest: Any


def _is_lazy(part: Any) -> bool:
    graph = getattr(part, "__dask_graph__", None)
    return graph is not None and graph() is not None


def _assembled(parts: list[Any], static: Any) -> Any:
    from arrayq.array import _assembled as assembled  # which is a collection

    return assembled((parts[0], parts[1], parts[2], parts[3]), static)


def _computed(results: Sequence[Any], finishes: tuple[_Finish, ...], static: Any) -> Any:
    """Return a quantized array of the results of the keys of its parts."""
    remaining = iter(results)
    parts = [
        rest if finish is None else finish(next(remaining), *rest) for finish, rest in finishes
    ]
    return _assembled(parts, static)


def _persisted(
    graph: Mapping[Any, Any],
    finishes: tuple[_Finish, ...],
    static: Any,
    keys: list[Any],
    *,
    rename: Mapping[str, str] | None = None,
) -> Any:
    """Return a quantized array whose parts know their own chunks among those of a graph."""
    from dask.core import flatten

    names = rename or {}
    own = [[(names.get(name, name), *place) for name, *place in flatten(part)] for part in keys]
    # a graph of computed chunks is shared out; any other one is needed whole
    computed = len(graph) <= sum(map(len, own))
    remaining = iter(own)
    parts = []
    for finish, rest in finishes:
        if finish is None:
            parts.append(rest)
            continue
        chunks = next(remaining)
        part = {key: graph[key] for key in chunks} if computed else graph
        parts.append(finish(part, *rest, **({"rename": rename} if rename else {})))
    return _assembled(parts, static)
