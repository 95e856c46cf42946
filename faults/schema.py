"""S3: requests that schemathesis draws from the schema that the service publishes."""

import os
import re
import subprocess
import sys
from pathlib import Path

from faults.campaign import CRASHES, SERVER_ERRORS, UNANSWERED, Campaign, Tally
from faults.services import answers, running

EXAMPLES = 60  # of each route and phase, in a chunk
GENERATED = re.compile(r"(\d+) generated")


def chunk(number: int, folder: Path) -> Tally:
    tally = Tally()
    with running(folder) as service:
        address = f"http://127.0.0.1:{service.port}/openapi.json"
        command = [sys.executable, "-m", "schemathesis.cli", "run", address, "--checks", "not_a_server_error"]
        command += ["--max-examples", str(EXAMPLES), "--seed", str(number), "--no-color", "--continue-on-failure"]
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)
        found = GENERATED.search(done.stdout)
        tally.trials = int(found[1]) if found else 0
        if done.returncode != 0:
            tally.bad(SERVER_ERRORS, f"seed {number}: {done.stdout[-1500:]} {done.stderr[-500:]}")
        if not answers(service):
            tally.bad(UNANSWERED, f"seed {number}")
        if service.process.poll() is not None or service.failures():
            tally.bad(CRASHES, f"seed {number}: {service.process.poll()} {service.failures()[:1]}")
    return tally


CAMPAIGN = Campaign(
    id="S3",
    name="schema",
    goal="requests drawn from the published schema by schemathesis: none is answered by 5xx",
    counted=(SERVER_ERRORS, UNANSWERED, CRASHES),
    wanted=5_000,
    quick=1,
    chunk=chunk,
)
