"""Parts of layers by name."""

from collections.abc import Sequence

from ahop._core.checks import check_choice
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError
from ahop.modulations.base import Modulation
from ahop.modulations.kernel import KernelModulation
from ahop.separations.argmax import Argmax
from ahop.separations.base import Separation
from ahop.separations.entmax import Entmax
from ahop.separations.softmax import Softmax
from ahop.separations.sparsemax import Sparsemax
from ahop.similarities.adaptive import AdaptiveSimilarity
from ahop.similarities.base import Similarity
from ahop.similarities.dot import DotSimilarity
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.similarities.manhattan import ManhattanSimilarity

FIXED: dict[str, type[Similarity]] = {
    "dot": DotSimilarity,
    "euclidean": EuclideanSimilarity,
    "manhattan": ManhattanSimilarity,
}
SEPARATIONS: dict[str, type[Separation]] = {
    "softmax": Softmax,
    "sparsemax": Sparsemax,
    "entmax": Entmax,
    "argmax": Argmax,
}


def similarities_of(
    similarity: str | Similarity | Sequence[Similarity], heads: int, head_size: int
) -> Similarity | list[Similarity]:
    """A word that is learned gives one for each head; an object is shared by all of them; a list has one each."""
    if isinstance(similarity, str):
        if check_choice("similarity", similarity, [*FIXED, "adaptive"]) in FIXED:
            return FIXED[similarity]()
        return [AdaptiveSimilarity(head_size) for _ in range(heads)]
    if isinstance(similarity, Similarity):
        _check_size("similarity", similarity, head_size)
        return similarity
    if not isinstance(similarity, Sequence) or isinstance(similarity, str):
        raise InvalidTypeError(
            f"`similarity` must be a word, a Similarity or a list of them; got {type(similarity).__name__}."
        )
    if len(similarity) not in (1, heads):
        raise InvalidValueError(
            f"`similarity` must be one for each of the {heads} heads, or one; got {len(similarity)}."
        )
    for each in similarity:
        _check_size("similarity", each, head_size)
    return list(similarity)


def separation_of(separation: str | Separation) -> Separation:
    if isinstance(separation, str):
        return SEPARATIONS[check_choice("separation", separation, list(SEPARATIONS))]()
    return separation


def modulation_of(modulation: str | Modulation | None, head_size: int) -> Modulation | None:
    if isinstance(modulation, str):
        check_choice("modulation", modulation, ["kernel"])
        return KernelModulation(head_size)
    if modulation is not None:
        _check_size("modulation", modulation, head_size)
    return modulation


def _check_size(name: str, part: Similarity | Modulation, head_size: int) -> None:
    if part.configuration().get("dimensions", head_size) != head_size:
        raise ShapeError(
            f"`{name}` must be made for {head_size} dimensions, the size of a head; got {part!r}. "
            "Set `head_size`, or make the part for that size."
        )
