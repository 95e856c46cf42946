"""`python -m faults [--quick] [--only NAME ...] [--trials N] [--resume]`: try it, and keep the counts."""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from faults.shim import preload

if __name__ == "__main__":
    preload()  # before anything else is loaded

import torch
from tqdm.auto import tqdm

from faults import (
    commit_steps,
    disk_errors,
    drain,
    flips,
    fuzz,
    kills,
    memory_machine,
    others,
    power_loss,
    read_errors,
    requests,
    restarts,
    routes,
    schema,
    service_machine,
    soak,
    store_machine,
    writers,
)
from faults.campaign import Campaign
from faults.ledger import Ledger

MODULES = (
    kills,
    commit_steps,
    writers,
    power_loss,
    disk_errors,
    read_errors,
    flips,
    fuzz,
    requests,
    schema,
    routes,
    others,
    drain,
    restarts,
    soak,
    memory_machine,
    store_machine,
    service_machine,
)
CAMPAIGNS: dict[str, Campaign] = {each.CAMPAIGN.name: each.CAMPAIGN for each in MODULES}


def perform(campaign: Campaign, ledger: Ledger, trials: int | None) -> None:
    """Chunk after chunk, until there are so many trials or no chunks any more."""
    bar = tqdm(
        desc=f"{campaign.id} {campaign.name}", initial=ledger.trials(campaign), total=trials, unit="", disable=None
    )
    while (trials is None or ledger.trials(campaign) < trials) and ledger.done(campaign) != campaign.chunks:
        started, before = time.perf_counter(), ledger.trials(campaign)
        with tempfile.TemporaryDirectory(prefix="ahop-faults-") as folder:
            number = trials if campaign.is_whole and trials else ledger.done(campaign)
            tally = campaign.chunk(number, Path(folder))
        ledger.add(campaign, tally, time.perf_counter() - started)
        bar.update(ledger.trials(campaign) - before)
    bar.close()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few hundred trials, two minutes; saves nothing")
    parser.add_argument("--only", nargs="+", choices=sorted(CAMPAIGNS), default=list(CAMPAIGNS), metavar="NAME")
    parser.add_argument("--trials", type=int, help="stop after so many of each campaign")
    parser.add_argument("--resume", action="store_true", help="go on where the result file ends")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    ledger = Ledger(None) if chosen.quick else Ledger()
    for name in chosen.only:
        campaign = CAMPAIGNS[name]
        if not chosen.resume:
            ledger.forget(campaign)
        perform(campaign, ledger, chosen.trials or (campaign.quick if chosen.quick else campaign.wanted))
    result = ledger.result()
    rows = [row for row in result["rows"] if row["name"] in chosen.only]
    for row in rows:
        wanted = "" if row["wanted"] is None else f" of {row['wanted']:,}"
        print(f"{row['id']} {row['name']}: {row['trials']:,}{wanted} trials, {row['bad']} bad, {row['seconds']:g} s")
        print("".join(f"  {each}\n" for each in row["examples"]), end="")
    if chosen.json:
        print(json.dumps(result))
    return int(any(row["bad"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
