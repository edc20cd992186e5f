"""Superpixels: an image cut into connected segments. Labels run 0..m-1, and every segment is 4-connected.

Colors are first scaled to the image's own range, so that units do not matter.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from turnabout.errors import ExplainError
from turnabout.explain.lime.maskers import neighbors, segment_means
from turnabout.parameters import Finite, Positive, Whole, checked

TINY = 0.25  # of a superpixel's mean area: smaller pieces of SLIC are merged into a neighbor


@dataclass(frozen=True)
@checked(ExplainError, rows=Whole(1), columns=Whole(1))
class Rectangles:
    """Rectangles of near equal size.

    Parameters
    ----------
    rows, columns : how many; at most as many as the image has pixels.
    """

    rows: int = 8
    columns: int = 8

    def __call__(self, image: np.ndarray) -> np.ndarray:
        h, w, _ = check_image(image).shape
        rows, columns = min(self.rows, h), min(self.columns, w)
        down, across = np.arange(h) * rows // h, np.arange(w) * columns // w
        return down[:, None] * columns + across


@dataclass(frozen=True)
@checked(ExplainError, count=Whole(1), compactness=Positive(), iterations=Whole(1))
class Slic:
    r"""SLIC: k-means on color and position, each pixel among the nine nearest centers, then a clean-up.

        dist^2 = |color - color_k|^2 + (compactness / 100)^2 |place - place_k|^2 / step^2,  step^2 = pixels / count  (1)

    Unconnected parts of a cluster become segments of their own, and pieces smaller than a quarter of step^2 are merged
    into the neighbor of the most similar color, so that there may be more or fewer segments than `count`. Colors are
    those of the image, not of the Lab space.

    Parameters
    ----------
    count : segments to aim for.
    compactness : weight of position against color; 10 as usual, more makes squares.
    iterations : of k-means.

    References
    ----------
    Achanta, Shaji, Smith, Lucchi, Fua, Suesstrunk (2012), SLIC superpixels compared to state-of-the-art methods.
    """

    count: int = 50
    compactness: float = 10.0
    iterations: int = 10

    def __call__(self, image: np.ndarray) -> np.ndarray:
        colors = scaled(image)
        h, w, c = colors.shape
        step = np.sqrt(h * w / self.count)
        rows, columns = (int(np.clip(round(side / step), 1, side)) for side in (h, w))
        cells = Rectangles(rows, columns)(image)
        places = np.stack(np.meshgrid(np.arange(h), np.arange(w), indexing="ij"), 2) / step
        points = np.concatenate([colors, places * (self.compactness / 100)], 2)  # (h, w, c + 2)
        near, centers = _cells_around(rows, columns), segment_means(points, cells)
        order = np.argsort(cells.ravel(), kind="stable")
        cell, flat = cells.ravel()[order], points.reshape(h * w, c + 2)[order]
        size = np.bincount(cell)
        slot = np.arange(h * w) - np.repeat(np.cumsum(size) - size, size)
        boxes = np.zeros((len(size), size.max(), c + 2))  # pixels by the cell in which they lie, filled up with zeros
        boxes[cell, slot] = flat
        label = cell
        for _ in range(self.iterations):
            candidates = centers[near]  # (cells, 9, c + 2)
            products = boxes @ candidates.swapaxes(1, 2)  # (cells, pixels, 9)
            distance = np.square(candidates).sum(2)[:, None] - 2 * products  # (1), less |pixel|^2
            before, label = label, near[cell, distance.argmin(2)[cell, slot]]
            count = np.bincount(label, minlength=len(centers))
            total = np.stack([np.bincount(label, column, len(centers)) for column in flat.T], 1)
            centers = np.where(count[:, None] > 0, total / np.maximum(count, 1)[:, None], centers)
            if (before == label).all():
                break
        clusters = np.empty(h * w, dtype=np.int64)
        clusters[order] = label
        return connect(clusters.reshape(h, w), colors, max(1, int(TINY * step * step)))


def _cells_around(rows: int, columns: int) -> np.ndarray:
    """(cells, 9) each cell and those around it; at the edge the nearest ones stand twice."""
    row, column = np.divmod(np.arange(rows * columns), columns)
    shifts = [(down, across) for down in (0, -1, 1) for across in (0, -1, 1)]
    around = [
        np.clip(row + down, 0, rows - 1) * columns + np.clip(column + across, 0, columns - 1) for down, across in shifts
    ]
    return np.stack(around, 1)


@dataclass(frozen=True)
@checked(ExplainError, scale=Positive(), sigma=Finite(least=0, hint="use 0.8 pixels."), smallest=Whole(1))
class Felzenszwalb:
    r"""Segments grown along edges of similar color, as long as the step between them is small beside those within.

        join A and B over an edge e  if |color difference| <= min(within(A) + scale / |A|, within(B) + scale / |B|)  (1)

    within is the largest edge in a segment so far. Edges join 4-neighbors, in order of their size.

    Parameters
    ----------
    scale : larger makes larger segments; for colors between 0 and 255, to which the image is scaled.
    sigma : of the Gaussian that smooths the image first, in pixels; 0 for none.
    smallest : segments of fewer pixels are merged into the neighbor of the most similar color.

    References
    ----------
    Felzenszwalb, Huttenlocher (2004), Efficient graph-based image segmentation.
    """

    scale: float = 300.0
    sigma: float = 0.8
    smallest: int = 50

    def __call__(self, image: np.ndarray) -> np.ndarray:
        from scipy.ndimage import gaussian_filter

        colors = scaled(image)
        smooth = gaussian_filter(colors, (self.sigma, self.sigma, 0), mode="nearest") if self.sigma else colors
        p, q = neighbors(*colors.shape[:2])
        flat = smooth.reshape(-1, colors.shape[2]) * 255
        step = np.sqrt(np.square(flat[p] - flat[q]).sum(1))
        order = np.argsort(step, kind="stable")
        root = _grow(len(flat), p[order].tolist(), q[order].tolist(), step[order].tolist(), float(self.scale))
        return connect(root.reshape(colors.shape[:2]), colors, self.smallest)


def _grow(pixels: int, p: list[int], q: list[int], step: list[float], scale: float) -> np.ndarray:
    """(pixels,) the root of each pixel's segment after all edges, in order."""
    root, size, bound = list(range(pixels)), [1] * pixels, [scale] * pixels
    for a, b, e in zip(p, q, step, strict=True):
        while root[a] != a:
            root[a] = a = root[root[a]]
        while root[b] != b:
            root[b] = b = root[root[b]]
        if a != b and e <= bound[a] and e <= bound[b]:  # (1)
            root[b] = a
            size[a] += size[b]
            bound[a] = e + scale / size[a]
    found = np.array(root)
    while (found != found[found]).any():
        found = found[found]
    return found


def connect(labels: np.ndarray, colors: np.ndarray, smallest: int) -> np.ndarray:
    """Labels (h, w) -> 0..m-1 in reading order, each 4-connected; none below `smallest`, unless it is all there is.

    The smallest pieces go first, each into the neighbor of the nearest mean color.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    h, w = labels.shape
    p, q = neighbors(h, w)
    flat = labels.ravel()
    same = flat[p] == flat[q]
    graph = coo_matrix((np.ones(int(same.sum())), (p[same], q[same])), shape=(h * w, h * w))
    piece = connected_components(graph, directed=False)[1]
    merged = _merge(piece, p[~same], q[~same], colors, smallest)
    _, first, place = np.unique(merged[piece], return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[place.ravel()].reshape(h, w)


def _merge(piece: np.ndarray, p: np.ndarray, q: np.ndarray, colors: np.ndarray, smallest: int) -> np.ndarray:
    """(pieces,) where each piece ends up."""
    size = np.bincount(piece).tolist()
    mean = list(segment_means(colors, piece.reshape(colors.shape[:2])))
    beside: list[set[int]] = [set() for _ in size]
    for a, b in np.unique(np.stack([piece[p], piece[q]], 1), axis=0).tolist():
        beside[a].add(b)
        beside[b].add(a)
    target = list(range(len(size)))
    small = [(n, a) for a, n in enumerate(size) if n < smallest]
    heapq.heapify(small)
    while small:
        n, a = heapq.heappop(small)
        if target[a] != a or n != size[a] or not beside[a]:
            continue  # merged away, grown since, or alone
        b = min(beside[a], key=lambda other: (float(np.square(mean[a] - mean[other]).sum()), other))
        target[a] = b
        mean[b] = (size[a] * mean[a] + size[b] * mean[b]) / (size[a] + size[b])
        size[b] += size[a]
        for other in beside[a]:
            beside[other].discard(a)
            if other != b:
                beside[other].add(b)
                beside[b].add(other)
        if size[b] < smallest:
            heapq.heappush(small, (size[b], b))
    found = np.array(target)
    while (found != found[found]).any():
        found = found[found]
    return found


def check_image(image: np.ndarray) -> np.ndarray:
    """The image itself, if it is one: finite numbers (h, w, c)."""
    good = isinstance(image, np.ndarray) and image.ndim == 3 and image.size > 0
    if not good or not np.issubdtype(image.dtype, np.number) or not np.isfinite(image).all():
        raise ExplainError(
            f"no image of shape (h, w, c): {getattr(image, 'shape', type(image).__name__)}, or not all finite numbers.",
            hint="a gray image (h, w) becomes one by image[..., None].",
        )
    return image


def scaled(image: np.ndarray) -> np.ndarray:
    """Colors between 0 and 1 over the range of the image; 0 for an image of one color."""
    values = check_image(image).astype(np.float64)
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.zeros_like(values)
