"""`python docs/screenshots.py`, after `make docs`: all pages fit their screen, and can be read by all.

Four pages are kept as pictures, in docs/_static/screens, to be looked at; `--check` keeps none. It needs selenium,
axe-core-python and a Chromium.
"""

import shutil
import sys
from pathlib import Path

from axe_core_python.selenium import Axe
from selenium import webdriver

HERE = Path(__file__).resolve().parent
SITE, TARGET = HERE / "_build" / "html", HERE / "_static" / "screens"
SCREENS = {"desktop": (1280, 900), "phone": (390, 844)}
KEPT = {
    "desktop": {"index": "landing", "explaining": "chart"},
    "phone": {"tutorial/2-fit": "tutorial", "api/memory": "api"},
}
# Looked at closely, for contrast, alternative texts, labels, languages and headings: one page of each kind.
CLOSELY = {"index", "explaining", "tutorial/2-fit", "api/memory", "concepts", "paper/ranked_readout"}
# Long signatures are lists without terms, as Sphinx writes them.
NOT_OURS = {"definition-list"}
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)


def browser_of(width: int, height: int) -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(flag)
    options.page_load_strategy = "eager"
    metrics = {"width": width, "height": height, "pixelRatio": 1.0}
    options.add_experimental_option("mobileEmulation", {"deviceMetrics": metrics})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def barriers(browser: webdriver.Chrome) -> list[str]:
    """What axe finds on the page that is open."""
    found = Axe().run(browser)["violations"]
    return [
        f"{rule['help']}: {' '.join(node['html'].split())[:90]}"
        for rule in found
        for node in rule["nodes"]
        if rule["id"] not in NOT_OURS
    ]


def main(arguments: list[str]) -> int:
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        print("pages are not looked at: install chromium and chromium-driver")
        return 0
    keep = "--check" not in arguments
    TARGET.mkdir(exist_ok=True)
    pages = sorted(path.relative_to(SITE).with_suffix("").as_posix() for path in SITE.rglob("*.html"))
    pages = [page for page in pages if not page.startswith(("_", "genindex", "search", "py-modindex"))]
    wrong = []
    for screen, size in SCREENS.items():
        browser = browser_of(*size)
        for page in pages if screen == "phone" else sorted(CLOSELY):
            browser.get(f"file://{SITE / page}.html")
            if browser.execute_script("return document.documentElement.scrollWidth > window.innerWidth"):
                wrong.append(f"{page} is wider than a {screen}")
            if keep and page in KEPT[screen]:
                browser.save_screenshot(str(TARGET / f"{KEPT[screen][page]}-{screen}.png"))
            if page in CLOSELY:
                wrong += [f"{page}, {screen}: {barrier}" for barrier in barriers(browser)]
        browser.quit()
    print("\n".join(wrong) or f"{len(pages)} pages fit a phone, and axe finds no barrier on {len(CLOSELY)} of them")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
