"""`python docs/screenshots.py`, after `make docs`: no page is wider than its screen; four of them as pictures.

It needs selenium and a Chromium; the pictures go to docs/_static/screens, to be looked at.
"""

import sys
from pathlib import Path

from selenium import webdriver

HERE = Path(__file__).resolve().parent
SITE, TARGET = HERE / "_build" / "html", HERE / "_static" / "screens"
SCREENS = {"desktop": (1280, 900), "phone": (390, 844)}
KEPT = {
    "desktop": {"index": "landing", "explaining": "chart"},
    "phone": {"tutorial/2-fit": "tutorial", "api/memory": "api"},
}


def main() -> int:
    TARGET.mkdir(exist_ok=True)
    pages = sorted(path.relative_to(SITE).with_suffix("").as_posix() for path in SITE.rglob("*.html"))
    pages = [page for page in pages if not page.startswith(("_", "genindex", "search", "py-modindex"))]
    wide = []
    for screen, (width, height) in SCREENS.items():
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
            options.add_argument(argument)
        metrics = {"width": width, "height": height, "pixelRatio": 1.0}
        options.add_experimental_option("mobileEmulation", {"deviceMetrics": metrics})
        browser = webdriver.Chrome(options=options)
        for page in pages:
            browser.get(f"file://{SITE / page}.html")
            if browser.execute_script("return document.documentElement.scrollWidth > window.innerWidth"):
                wide.append(f"{page} is wider than a {screen}")
            if page in KEPT[screen]:
                browser.save_screenshot(str(TARGET / f"{KEPT[screen][page]}-{screen}.png"))
        browser.quit()
    print("\n".join(wide) or f"{len(pages)} pages fit both screens")
    return 1 if wide else 0


if __name__ == "__main__":
    sys.exit(main())
