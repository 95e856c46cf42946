"""S4: every route is asked without a key and with wrong ones."""

from pathlib import Path

from ahop.service.http.gate import OPEN
from faults.campaign import OPEN_ROUTES, UNANSWERED, Campaign, Tally
from faults.services import running

SECRET = "a key that is long enough for everybody"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
WRONG = ("", "Bearer", "Bearer ", "Bearer x", f"Basic {SECRET}", f"Bearer {SECRET[:-1]}", f"Bearer {SECRET}x", SECRET)


def chunk(number: int, folder: Path) -> Tally:
    tally = Tally()
    with running(folder, key=SECRET) as service:
        status, said, _ = service.ask("GET", "/openapi.json", headers={"Authorization": f"Bearer {SECRET}"})
        if status != 200:
            tally.bad(UNANSWERED, "a right key is refused")
            return tally
        paths = [*said["paths"], "/openapi.json", "/docs", "/nothing"]
        for path in paths:
            where = path.replace("{name}", "rooms").replace("{version}", "1")
            for method in METHODS:
                for given in WRONG:
                    headers = {"Authorization": given} if given else {}
                    status, _, _ = service.ask(method, where, b"{}", headers)
                    tally.trials += 1
                    if status != 401 and where not in OPEN:
                        tally.bad(OPEN_ROUTES, f"{method} {where} with {given!r}: {status}")
    return tally


CAMPAIGN = Campaign(
    id="S4",
    name="routes",
    goal="every route, by every method, without a key and with wrong ones: 401",
    counted=(OPEN_ROUTES, UNANSWERED),
    wanted=None,
    quick=1,
    chunk=chunk,
    chunks=1,
)
