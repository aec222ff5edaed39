"""The page in a real browser: live while one types, by keyboard, wide and narrow, for its owner alone."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from cluster.workspace import free_ports
from playground.browser import CHROMIUM, DRIVER, Page, playground
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

needs_browser = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="the page is not tried: install Debian's packages chromium and chromium-driver"
)
# Each pass doubles what the one before has made.
HOSTILE = "size([1]" + ".map(x, [x, x]).map(x, x + x)" * 24 + ") == 1"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address that the command prints; at the end Ctrl-C ends it in order."""
    with playground(free_ports(["playground"])["playground"]) as (process, address):
        yield address
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130  # as shells expect


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    """A browser for all tests."""
    shown = Page()
    yield shown
    shown.driver.quit()


@pytest.fixture
def page(browser: Page, address: str) -> Page:
    """The page as it opens, with its first answer."""
    browser.open(address)
    browser.answer("refused", "Each container needs a memory limit.")
    return browser


def _status(address: str, path: str, **headers: str) -> tuple[int, str]:
    connection = HTTPConnection(urlsplit(address).netloc, timeout=60)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.getheader("set-cookie") or ""
    finally:
        connection.close()


def test_it_is_for_its_owner(address: str) -> None:
    """Without the token nobody sees anything, and under another name of the machine not even with it."""
    where = urlsplit(address)
    entered, cookie = _status(address, f"/?{where.query}")
    known = cookie.partition(";")[0]

    assert (entered, cookie.endswith("; HttpOnly; Path=/; SameSite=strict")) == (303, True)
    assert [
        _status(address, path, **headers)[0]
        for path, headers in (
            ("/", {"Cookie": known}),
            ("/", {}),
            ("/?token=guessed", {}),
            ("/", {"Cookie": f"{known}x"}),
            ("/_nicegui_ws/socket.io/?EIO=4&transport=polling", {}),
            ("/", {"Cookie": known, "Host": "evil.example"}),
        )
    ] == [200, 403, 403, 403, 403, 421]


@needs_browser
def test_answers_while_one_types(page: Page) -> None:
    """A new text has a new answer, also after one that would take for ever; nothing comes from elsewhere."""
    page.write("object.spec.replicas + 1")
    page.answer("admitted", "13")
    page.write(HOSTILE)
    page.write("object.spec.replicas + 2")
    page.answer("admitted", "14")
    page.write("objekt")
    page.answer("unreadable", "undeclared reference to 'objekt'", "did you mean 'object'?")
    page.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    page.wait(lambda: page.driver.execute_script("return document.activeElement === document.body"))

    assert page.hosts() == {urlsplit(page.driver.current_url).netloc}


@needs_browser
def test_what_is_false_can_be_opened_by_keyboard(page: Page) -> None:
    """Tabs and rows are opened by keys; Escape leaves an editor, in which Tab indents."""
    page.answer("Kubernetes 1.36: the same")  # the details are there, and nothing is replaced any more
    tab = page.named("Expressions")
    page.driver.execute_script("arguments[0].focus()", tab)
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    row = page.wait(lambda: page.driver.find_element(By.CSS_SELECTOR, ".q-tree__node-header"))
    page.driver.execute_script("arguments[0].focus()", row)
    page.driver.switch_to.active_element.send_keys(Keys.SPACE)

    page.answer("cost 10 of 1,000,000", 'container "main": has(c.resources)', "is false")


@needs_browser
def test_a_link_holds_everything(page: Page) -> None:
    """Whoever opens the link in a playground of their own sees the same."""
    page.write("object.kind + ', linked'")
    page.answer("admitted", '"Deployment, linked"')
    link = page.wait(lambda: page.driver.current_url if "#" in page.driver.current_url else "")

    page.open(link)

    page.answer("admitted", '"Deployment, linked"')


@needs_browser
def test_the_map_of_the_nodes(page: Page) -> None:
    """An example is chosen by its name; its gang, the domains and their picture are shown."""
    chosen = page.driver.find_element(By.CSS_SELECTOR, 'input[aria-label="Example"]')
    chosen.send_keys("a gang")
    page.wait(lambda: [one for one in page.driver.find_elements(By.CSS_SELECTOR, ".q-item") if one.text])
    (option,) = page.driver.find_elements(By.CSS_SELECTOR, ".q-item")
    option.click()
    page.answer("admitted", "Job default/train")
    page.named("Placement").click()

    page.answer("No superpod has room for 4 Pods", "superpod 3: 3 Nodes, 10 of 24 GPUs free")
    picture = page.wait(lambda: page.driver.find_element(By.CSS_SELECTOR, 'img[src^="data:image/svg+xml"]'))
    assert page.wait(lambda: page.driver.execute_script("return arguments[0].naturalWidth", picture)) > 0


@needs_browser
def test_narrow_and_dark(page: Page) -> None:
    """On a telephone nothing stands beyond the edge, and the other shade is one click away."""
    page.driver.set_window_size(420, 900)
    inner, whole = page.driver.execute_script("return [innerWidth, document.documentElement.scrollWidth]")
    page.named("Dark or light").click()

    page.wait(lambda: "body--dark" in page.driver.execute_script("return document.body.className"))
    assert whole <= inner
