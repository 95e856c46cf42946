"""Tables again: ours and boosted trees beside RealMLP, a network that people use today. Needs pytabkit."""

from importlib.util import find_spec

from ahop.errors import MissingPackageError
from experiments.paper.tab_tabular import judged
from experiments.support.harness import Experiment, Row
from experiments.support.table_peers import realmlp
from experiments.support.tables import Contender, contenders, means, table_cells

MODELS = {name: contenders()[name] for name in ("XGBoost", "HistGradientBoosting", "ahop")}
MODELS["RealMLP"] = Contender(realmlp, {})
# Nothing of ours was chosen on this split.
FIRST = 1


def cells(seeds: int, quick: bool) -> list[Row]:
    if find_spec("pytabkit") is None:
        raise MissingPackageError("`tab_tabular_network` compares with a network of pytabkit: `pip install pytabkit`.")
    return table_cells(MODELS, range(FIRST, FIRST + seeds), quick)


def run(cell: Row, quick: bool) -> list[Row]:
    return [judged(MODELS[cell["model"]], cell, quick)]


EXPERIMENT = Experiment(
    name="tab_tabular_network",
    title="Classification of five tables: boosted trees, ours, and a network of others",
    seeds=1,
    cells=cells,
    run=run,
    keys=("dataset", "model"),
    metrics=("accuracy", "auc", "seconds"),
    summarize=means,
    notes=(
        "One of the splits of `tab_tabular`, that of seed 1, as the network takes up to a quarter of an hour on one "
        "thread. Trees and ours are tuned as there, with the same budget; RealMLP has its published defaults, which "
        "were chosen on many other tables, and no search: it holds a fifth of its training rows back to choose when to "
        "stop. TabM is left out, as it takes longer still, and TabPFN, as its weights could not be had. `seconds` is "
        "tuning, fitting and answering."
    ),
)
