"""The page of a service in a real browser: a damaged picture goes in, the answer and the reason are read off it."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import ahop
from ahop.datasets.building import demo_tables
from ahop.errors import DataNotFoundError

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
pytest.importorskip("selenium")

from experiments.datasets import load_mnist
from PIL import Image
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.ui import WebDriverWait

from ahop.service.testing import Running, running

COUNT, SECONDS = 120, 300
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1000,1400"),
)


def digits() -> torch.Tensor:
    """Pictures of handwritten digits, (n, 784), from 0 to 1."""
    try:
        rows = load_mnist().train[:COUNT]
    except DataNotFoundError:
        pytest.skip("the page is tried with MNIST: set AHOP_DATA to the folder that holds `mnist`")
    return torch.from_numpy(np.asarray(rows, dtype=np.float32).reshape(len(rows), -1)) / 255


def damaged(row: torch.Tensor, seed: int = 0) -> torch.Tensor:
    """A part is covered, the rest is noisy."""
    picture = row.view(28, 28).clone()
    picture[14:] = 0.0
    noisy = picture + 0.1 * torch.randn(28, 28, generator=torch.Generator().manual_seed(seed))
    return noisy.clamp(0, 1).flatten()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder, stored = tmp_path_factory.mktemp("page"), digits()
    ahop.AssociativeMemory(stored, ahop.EuclideanSimilarity()).save(folder / "digits.ahop")
    rooms = pd.DataFrame(demo_tables()["rooms.csv"]).set_index("room").drop(columns="floor")
    ahop.AssociativeMemory(rooms, ahop.EuclideanSimilarity()).save(folder / "rooms.ahop")
    paths = str(folder / "digits.ahop"), str(folder / "rooms.ahop")
    with running(folder, *paths, "--watch", "50") as made:
        yield made


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("a browser is needed: install chromium and chromium-driver")
    options = ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = Chrome(options=options, service=ChromeService(driver))
    yield made
    made.quit()


def text(browser: Chrome, name: str) -> str:
    return browser.find_element(By.ID, name).text


def wait(browser: Chrome, done: Any) -> None:
    WebDriverWait(browser, SECONDS).until(lambda _: done())


def upload(browser: Chrome, path: Path, row: torch.Tensor) -> None:
    Image.fromarray((255 * row.view(28, 28)).round().byte().numpy()).save(path)
    browser.find_element(By.ID, "file").send_keys(str(path))
    wait(browser, lambda: browser.find_element(By.ID, "row").get_attribute("value"))
    browser.find_element(By.CSS_SELECTOR, "#ask button").click()


def test_a_damaged_picture_is_found_explained_corrected_and_learned_from(
    service: Running, browser: Chrome, tmp_path: Path
) -> None:
    stored = digits()
    browser.get(service.url)
    wait(browser, lambda: "version 1" in text(browser, "version"))
    assert Select(browser.find_element(By.ID, "collection")).first_selected_option.text == "digits"
    upload(browser, tmp_path / "damaged.png", damaged(stored[7]))
    wait(browser, lambda: text(browser, "answers"))
    first = browser.find_element(By.CSS_SELECTOR, "#answers li")
    assert text(browser, "state").startswith("1 query so far: ")
    assert "row 7" in first.text
    assert text(browser, "words").startswith("7 with probability")
    assert len(browser.find_elements(By.CSS_SELECTOR, "#waterfall rect")) >= 5
    for row in range(8, 60):
        kept = service.ask(
            "POST", "/collections/digits/pairs", {"queries": [damaged(stored[row], row).tolist()], "ids": [row]}
        )
        assert kept[0] == 201
    browser.find_element(By.ID, "right").send_keys("7")
    browser.find_element(By.CSS_SELECTOR, "#correct button").click()
    wait(browser, lambda: "Kept for the next fit: 53 pairs" in text(browser, "told"))
    browser.save_screenshot(str(tmp_path / "page.png"))
    browser.find_element(By.ID, "fit").click()
    wait(browser, lambda: "version 2" in text(browser, "fitting") or text(browser, "error"))
    assert not text(browser, "error")
    assert "version 2" in text(browser, "version")
    assert text(browser, "state").startswith("1 query so far: ")
    said = browser.get_log("browser")  # type: ignore[no-untyped-call]
    assert [each for each in said if each["level"] == "SEVERE"] == []


def test_the_page_says_what_the_last_queries_show(service: Running, browser: Chrome) -> None:
    asked = [damaged(row, seed).tolist() for seed, row in enumerate(digits()[:50])]
    service.recall("digits", queries=asked)
    browser.get(service.url)
    wait(browser, lambda: "784 dimensions" in text(browser, "version"))
    browser.find_element(By.ID, "look").click()
    wait(browser, lambda: "Of 50 queries" in text(browser, "drift"))


def test_a_row_may_have_gaps_and_what_is_wrong_is_said(service: Running, browser: Chrome) -> None:
    browser.get(service.url)
    wait(browser, lambda: "784 dimensions" in text(browser, "version"))
    row = browser.find_element(By.ID, "row")
    row.send_keys("1, 2, 3")
    browser.find_element(By.CSS_SELECTOR, "#ask button").click()
    wait(browser, lambda: "784" in text(browser, "error"))
    values = [f"{number:.2f}" for number in digits()[3].tolist()]
    values[100] = ""
    browser.execute_script("arguments[0].value = arguments[1]", row, ", ".join(values))
    browser.find_element(By.CSS_SELECTOR, "#ask button").click()
    wait(browser, lambda: "row 3" in text(browser, "answers"))
    assert not text(browser, "error")


DROP = """
const file = new File([arguments[1]], "scans.csv", { type: "text/csv" }), data = new DataTransfer();
data.items.add(file);
arguments[0].dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
"""


@pytest.mark.parametrize("way", ["typed", "chosen", "dropped"])
def test_the_tables_of_the_demo_are_read_by_the_names_of_their_columns(
    service: Running, browser: Chrome, tmp_path: Path, way: str
) -> None:
    command = [sys.executable, "-m", "ahop.cli", "demo", "--data", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
    scans = pd.read_csv(tmp_path / "scans.csv")
    backwards = scans[scans.columns[::-1]].drop(columns="ap05")
    backwards.to_csv(tmp_path / "backwards.csv", index=False)
    browser.get(service.url)
    wait(browser, lambda: "784 dimensions" in text(browser, "version"))
    Select(browser.find_element(By.ID, "collection")).select_by_visible_text("rooms")
    wait(browser, lambda: "16 dimensions" in text(browser, "version"))
    row, written = browser.find_element(By.ID, "row"), (tmp_path / "backwards.csv").read_text("utf-8")
    if way == "typed":
        browser.execute_script("arguments[0].value = arguments[1]", row, written)
        browser.execute_script("arguments[0].dispatchEvent(new Event('input'))", row)
    elif way == "chosen":
        browser.find_element(By.ID, "file").send_keys(str(tmp_path / "backwards.csv"))
    else:
        browser.execute_script(DROP, row, written)
    wait(browser, lambda: "Ignored columns: scan." in text(browser, "note"))
    assert text(browser, "note").startswith("100 rows.")
    assert "not observed: ap05" in text(browser, "note")
    which = browser.find_element(By.ID, "which")
    which.clear()
    which.send_keys("4")
    browser.find_element(By.CSS_SELECTOR, "#ask button").click()
    wait(browser, lambda: text(browser, "answers"))
    asked = scans.iloc[3].drop("scan").drop("ap05").astype(float).dropna().to_dict()
    found = service.recall("rooms", queries=[asked])
    assert browser.find_element(By.CSS_SELECTOR, "#answers .name").text.startswith(found["labels"][0][0])
    assert not text(browser, "error")


def test_a_table_for_a_collection_without_names_is_refused_in_words(service: Running, browser: Chrome) -> None:
    browser.get(service.url)
    wait(browser, lambda: "784 dimensions" in text(browser, "version"))
    row = browser.find_element(By.ID, "row")
    browser.execute_script("arguments[0].value = arguments[1]", row, "ap01,ap02\n1,2")
    browser.find_element(By.CSS_SELECTOR, "#ask button").click()
    wait(browser, lambda: "have no names" in text(browser, "error"))


ROOM = "-63.9, -66.2, -59.2, -64.1, -69.8, -61.7, -53.3, -56.5, -71.3, -76.4, -70.6, -64.6, -85.9, -67, -76.2, -71.6"


def ask_for_a_room(service: Running, browser: Chrome) -> None:
    browser.get(service.url)
    wait(browser, lambda: "784 dimensions" in text(browser, "version"))
    Select(browser.find_element(By.ID, "collection")).select_by_visible_text("rooms")
    wait(browser, lambda: "16 dimensions" in text(browser, "version"))
    browser.find_element(By.ID, "row").send_keys(ROOM)
    browser.find_element(By.CSS_SELECTOR, "#ask button").click()
    wait(browser, lambda: "room 100" in text(browser, "answers"))


def test_feedback_is_by_name_where_rows_have_names(service: Running, browser: Chrome) -> None:
    ask_for_a_room(service, browser)
    assert not browser.find_element(By.ID, "pixels-label").is_displayed(), "named columns are no pixels"
    assert not browser.find_element(By.ID, "fit").is_enabled(), "there is nothing to learn from"
    right = browser.find_element(By.ID, "right")
    right.send_keys("room 999")
    browser.find_element(By.CSS_SELECTOR, "#correct button").click()
    wait(browser, lambda: 'called "room 999"' in text(browser, "error"))
    right.clear()
    right.send_keys("room 112")
    browser.find_element(By.CSS_SELECTOR, "#correct button").click()
    wait(browser, lambda: text(browser, "told") == "Thank you: room 112. Kept for the next fit: 1 pair.")
    assert browser.find_element(By.ID, "fit").is_enabled()
    assert not text(browser, "error")


def test_a_fit_that_is_refused_leaves_nothing_waiting(service: Running, browser: Chrome) -> None:
    ask_for_a_room(service, browser)
    browser.execute_script("document.getElementById('fit').disabled = false")
    browser.execute_script("window.fetch = () => Promise.reject(new Error('gone'))")
    browser.find_element(By.ID, "fit").click()
    wait(browser, lambda: text(browser, "error"))
    assert text(browser, "fitting") == ""


def test_words_of_the_reasons_are_as_large_on_a_phone(service: Running, browser: Chrome) -> None:
    size = browser.get_window_size()
    try:
        browser.set_window_size(500, 900)
        ask_for_a_room(service, browser)
        height = "document.querySelector('#waterfall text').getBoundingClientRect().height"
        assert browser.execute_script(f"return {height}") > 12
        assert "-0.0" not in text(browser, "waterfall")
        said = browser.get_log("browser")  # type: ignore[no-untyped-call]
        assert not [each for each in said if "form" in each["message"].lower()]
    finally:
        browser.set_window_size(size["width"], size["height"])


def test_no_page_is_wider_than_a_phone(service: Running, browser: Chrome) -> None:
    size = browser.get_window_size()
    try:
        browser.set_window_size(500, 900)  # no window is narrower
        browser.get(service.url)
        wait(browser, lambda: "version" in text(browser, "version"))
        assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    finally:
        browser.set_window_size(size["width"], size["height"])
