"""Fit tables of categories: how often a category becomes another, beside how often it is met anyway."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Generator, Tensor

from ahop._core.columns import place_of, words_of
from ahop._core.tensors import distinct
from ahop._core.typing import Patterns, Queries
from ahop.errors import InvalidTypeError, InvalidValueError
from ahop.fitting.corruption.gaps import Gaps
from ahop.fitting.settings import DEFAULT, MixtureSettings
from ahop.similarities.additive import AdditiveSimilarity

# A table of more categories would take more memory than its counts could fill.
MOST_CATEGORIES = 64
# Entries that are taken for granted before any is seen, and the share of them that are drawn anew: of all columns.
EXPECTED_ENTRIES, EXPECTED_ERRORS = 20.0, 0.05
# Entries of each category that are taken for granted, with the errors of all columns: of columns with its categories.
EXPECTED_OF_EACH = 10.0
# Rows in which each category, and one that nobody stored, is taken for granted.
EXPECTED_ROWS = 0.5


@final
@dataclass(frozen=True)
class Categories:
    """Columns that hold categories.

    Attributes:
        places: of the columns.
        codes: of each column, the numbers that stand for its categories, rising.
        shares: of each column, how often its categories are stored, and any other.
        dimensions: the number of all columns.
    """

    places: tuple[int, ...]
    codes: tuple[Tensor, ...]
    shares: tuple[Tensor, ...]
    dimensions: int

    @classmethod
    def of(
        cls, patterns: Patterns, copies: Queries, places: Sequence[int], columns: Sequence[str] | None
    ) -> "Categories":
        """Categories of these columns, as their words say, or as stored rows and copies have them."""
        words, codes, shares = words_of(columns), [], []
        for place in places:
            stored, asked = (rows[~rows.isnan()].double() for rows in (patterns[:, place], copies[:, place]))
            met = torch.arange(len(words[place])).double() if place in words else _values(torch.cat([stored, asked]))
            if len(met) > MOST_CATEGORIES:
                name = f"column {place}" if columns is None else f"the column {columns[place]!r}"
                raise InvalidValueError(
                    f"`categorical` must be columns of at most {MOST_CATEGORIES} different values; {name} has "
                    f"{len(met)}. Leave it out, and its values are compared as numbers."
                )
            number = torch.searchsorted(met, stored.contiguous())
            number = torch.where(met[number.clamp_max(len(met) - 1)] == stored, number, len(met))
            count = torch.bincount(number, minlength=len(met) + 1).double()
            codes.append(met)
            shares.append((count + EXPECTED_ROWS) / (count.sum() + EXPECTED_ROWS * len(count)))
        return cls(tuple(places), tuple(codes), tuple(shares), patterns.shape[1])

    @property
    def numeric(self) -> list[int]:
        """Places of all other columns."""
        known = set(self.places)
        return [place for place in range(self.dimensions) if place not in known]

    def alone(self) -> "Categories":
        """Categories of a table that has no other columns."""
        return Categories(tuple(range(len(self.places))), self.codes, self.shares, len(self.places))

    def numbers(self, rows: Tensor) -> Tensor:
        """The number of the category of each entry (m, c) of these columns, -1 where there is none."""
        found = torch.empty(rows.shape, dtype=torch.long, device=rows.device)
        for column, codes in enumerate(self.codes):
            values = rows[:, column].double().contiguous()
            place = torch.searchsorted(codes, values).clamp_max(len(codes) - 1)
            place = torch.where(codes[place] == values, place, len(codes))
            found[:, column] = place.masked_fill(values.isnan(), -1)
        return found


@final
class CategoryTables:
    r"""$P(x_i = k \mid \xi_i = j)$, shared by all columns $i$ of the same categories.

    With an error, $e$ of all entries, a category is drawn anew as often as it is met. Each row of a table is drawn to
    that, and moves away from it by what was counted.

    Args:
        originals: (m, c) of the columns that hold categories.
        copies: (m, c).
        weights: (m,) how much each pair counts.
    """

    def __init__(self, categories: Categories, originals: Patterns, copies: Queries, weights: Tensor) -> None:
        self.categories = categories
        self._originals, self._copies, self._weights = originals, copies, weights.double()
        stored, asked = categories.numbers(originals), categories.numbers(copies)
        self.families = _families(categories)
        counts = [self._counts(stored, asked, columns) for columns in self.families]
        self.error = self._error(counts)
        self.tables = [self._table(count, columns) for count, columns in zip(counts, self.families, strict=True)]
        seen = sum(float(count.sum()) for count in counts)
        self.agreement = sum(float(count.diagonal()[:-1].sum()) for count in counts) / max(seen, 1e-12)

    def similarity(self, settings: MixtureSettings = DEFAULT.mixture) -> AdditiveSimilarity:
        r"""$\sum_i \log P(x_i \mid \xi_i) - \log P(x_i)$, as tables with a knot at each category."""
        columns, knots = len(self.categories.codes), max(map(len, self.categories.codes)) + 1
        rank = sum(1 if len(family) == 1 else 1 + knots for family in self.families)
        similarity = AdditiveSimilarity(columns, knots, knots, rank).double()
        for column, codes in enumerate(self.categories.codes):
            beyond = codes[-1:] + torch.arange(1, knots - len(codes) + 1)
            similarity.query_places[column] = similarity.pattern_places[column] = torch.cat([codes, beyond])
        similarity.mixing.zero_()
        with torch.no_grad():
            similarity.tables.zero_()
            first = 0
            for family, table in zip(self.families, self.tables, strict=True):
                of_each = torch.stack([_padded((self.categories.shares[i] @ table).log(), knots) for i in family])
                similarity.tables[first] = _padded(_padded(table.log(), knots).mT, knots)
                similarity.mixing[list(family), first] = 1
                known = table.shape[0] - 1
                similarity.tables[first][known:, known:] = of_each[:, known].mean()  # two strangers may be one or not
                if len(family) == 1:
                    similarity.tables[first] -= of_each.mT
                else:
                    apart = torch.eye(knots, dtype=torch.float64).unsqueeze(-1)
                    similarity.tables[first + 1 : first + 1 + knots] = apart
                    similarity.mixing[list(family), first + 1 : first + 1 + knots] = -of_each
                first += 1 if len(family) == 1 else 1 + knots
        if len(self._originals):
            Gaps(self._originals.double(), self._copies.double(), settings).fit(similarity.missingness, self._weights)
        return similarity.to(self._originals.dtype)

    def drawn(self, rows: Patterns, generator: Generator) -> Queries:
        """Copies of rows (m, c), complete where these are."""
        numbers, found = self.categories.numbers(rows), torch.full_like(rows, torch.nan)
        for family, table in zip(self.families, self.tables, strict=True):
            for column in family:
                codes = self.categories.codes[column]
                values = torch.cat([codes, codes[-1:] + 1])
                known = (numbers[:, column] >= 0).nonzero().squeeze(-1)
                if len(known):
                    drawn = torch.multinomial(table[numbers[known, column]], 1, generator=generator).squeeze(-1)
                    found[known, column] = values[drawn].to(rows)
        return found

    def _counts(self, stored: Tensor, asked: Tensor, columns: Sequence[int]) -> Tensor:
        """Weights of the pairs of categories, (k + 1, k + 1), the stored one first."""
        size = len(self.categories.codes[columns[0]]) + 1
        stored, asked = stored[:, columns], asked[:, columns]
        both = (stored >= 0) & (asked >= 0)
        weights = self._weights.unsqueeze(-1).expand(both.shape)[both]
        return torch.bincount((stored * size + asked)[both], weights, size * size).view(size, size)

    def _error(self, counts: Sequence[Tensor]) -> float:
        """Share of the entries that are drawn anew, some of them as they were."""
        apart, by_chance = EXPECTED_ERRORS * EXPECTED_ENTRIES, EXPECTED_ENTRIES
        for count, columns in zip(counts, self.families, strict=True):
            apart += float(count.sum() - count.diagonal().sum())
            by_chance += float((count.sum(-1) * (1 - self._shares(columns))).sum())
        return min(apart / by_chance, 1.0)

    def _table(self, counts: Tensor, columns: Sequence[int]) -> Tensor:
        kept = torch.eye(len(counts), dtype=torch.float64)
        expected = (1 - self.error) * kept + self.error * self._shares(columns)
        return (counts + EXPECTED_OF_EACH * expected) / (counts.sum(-1, keepdim=True) + EXPECTED_OF_EACH)

    def _shares(self, columns: Sequence[int]) -> Tensor:
        return torch.stack([self.categories.shares[column] for column in columns]).mean(0)


def categorical_places(
    given: bool | Sequence[str | int], dimensions: int, columns: Sequence[str] | None
) -> tuple[int, ...]:
    """Places of the columns that hold categories: those with words, and those that are named."""
    if isinstance(given, bool):
        return tuple(range(dimensions)) if given else tuple(words_of(columns))
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidTypeError(
            f"`categorical` must be names or places of columns, such as `categorical=['blood']`, or True; "
            f"got {given!r}."
        )
    return tuple(sorted({*words_of(columns), *(place_of("categorical", each, dimensions, columns) for each in given)}))


def _values(met: Tensor) -> Tensor:
    """Values that were met; of whole numbers those between them, too."""
    found = distinct(met)[0] if len(met) else torch.zeros(1, dtype=torch.float64)
    is_whole = bool((found == found.round()).all()) and float(found[-1] - found[0]) < MOST_CATEGORIES
    return torch.arange(float(found[0]), float(found[-1]) + 1, dtype=torch.float64) if is_whole else found


def _families(categories: Categories) -> list[list[int]]:
    """Columns of the same categories, which share a table."""
    found: dict[tuple[float, ...], list[int]] = defaultdict(list)
    for column, codes in enumerate(categories.codes):
        found[tuple(codes.tolist())].append(column)
    return list(found.values())


def _padded(values: Tensor, knots: int) -> Tensor:
    """The last entry once more, until there are so many."""
    return torch.cat([values, values[..., -1:].expand(*values.shape[:-1], knots - values.shape[-1])], dim=-1)
