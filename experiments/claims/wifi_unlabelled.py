"""A phone that the radio map was made without, and nobody says where its scans were made."""

import ahop
from ahop.similarities import SorensenSimilarity, TransformedSimilarity
from ahop.transforms import PowerTransform
from experiments.support.harness import Experiment, Row
from experiments.support.learning import learn, report_of
from experiments.support.measures import hit_rate
from experiments.support.wifi_protocol import leave_out_phone, metres, phones

QUICK_PHONES = 2
# Strengths, in dBm, from nothing to as loud as it gets.
QUIETEST, LOUDEST = -105.0, 0.0


def cells(seeds: int, quick: bool) -> list[Row]:
    known = phones()[:QUICK_PHONES] if quick else phones()
    return [{"phone": phone, "seed": seed} for seed in range(seeds) for phone in known]


def run(cell: Row, quick: bool) -> list[Row]:
    draw = leave_out_phone(cell["phone"], cell["seed"])
    heard = TransformedSimilarity(SorensenSimilarity(), PowerTransform(QUIETEST, LOUDEST, 1.0, 0.0))
    models = {
        "plain": ahop.AssociativeMemory(draw.patterns, ahop.EuclideanSimilarity()),
        "Sørensen": ahop.AssociativeMemory(draw.patterns, heard),
        "unlabelled": ahop.fit(draw.patterns, queries=draw.pairs.queries, seed=cell["seed"], progress=False),
        "labelled": learn(draw.patterns, draw.pairs, "auto", cell["seed"]),
    }
    rows = []
    for name, memory in models.items():
        first = memory.recall(draw.test.queries).indices[:, 0]
        rows.append(
            {
                **cell,
                "model": name,
                "top1": hit_rate(first, draw.test.origins),
                "error_m": float(metres(draw.places[first], draw.truth).mean()),
                "chosen": None if memory.report is None else report_of(memory).chosen,
            }
        )
    return rows


def headline(rows: list[Row]) -> Row:
    """Of the metres that labels win, how many are won without; and the phone that loses most."""
    error = {(row["phone"], row["model"]): row["error_m"] for row in rows}
    known = sorted({phone for phone, _ in error})
    mean = {model: sum(error[phone, model] for phone in known) / len(known) for model in {model for _, model in error}}
    found = {}
    for without in ("plain", "Sørensen"):
        gain = mean[without] - mean["labelled"]
        found[f"share of the gain over {without}"] = round((mean[without] - mean["unlabelled"]) / gain, 4)
        worst = {phone: error[phone, "unlabelled"] / error[phone, without] - 1 for phone in known}
        found[f"worst phone beside {without}"] = round(max(worst.values()), 4)
    return {**{f"{model}_error_m": round(value, 3) for model, value in sorted(mean.items())}, **found}


EXPERIMENT = Experiment(
    name="wifi_unlabelled",
    title="Where is a phone that the radio map was made without? 30 of its scans, and nobody says where they were made",
    seeds=5,
    cells=cells,
    run=run,
    keys=("phone", "model"),
    metrics=("top1", "error_m"),
    words=("chosen",),
    headline=headline,
    notes=(
        "UJIIndoorLoc, one phone left out at a time; the protocol of `wifi`. *plain* is the Euclidean metric of what "
        "both heard, *Sørensen* the practitioner's metric of strengths, where what is missing was not heard; neither "
        "learns. *unlabelled* learns from 30 scans whose places nobody knows, *labelled* from the same with their "
        "places. Mean distance in metres, 150 scans a phone and seed. The quick form has two phones."
    ),
)
