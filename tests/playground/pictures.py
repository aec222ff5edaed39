"""Makes the pictures of docs/guides/playground.md: `cd tests && python -m playground.pictures`."""

from __future__ import annotations

from pathlib import Path

from cluster.workspace import free_ports
from playground.browser import Page, playground

_FOLDER = Path(__file__).parents[2] / "docs" / "guides" / "playground"


def main() -> None:
    """Write the pictures: a refusal with its expression, and a gang on the map, wide, and the first one narrow."""
    with playground(free_ports(["playground"])["playground"]) as (_, address):
        page = Page()
        try:
            page.open(address, 1200, 900)
            page.answer("refused", "Each container needs a memory limit.")
            page.named("Expressions").click()
            page.wait(lambda: page.driver.find_element("css selector", ".q-tree__arrow")).click()
            page.answer('container "main"')
            page.driver.save_screenshot(str(_FOLDER / "refusal.png"))
            page.driver.find_element("css selector", 'input[aria-label="Example"]').send_keys("a gang")
            page.wait(lambda: page.driver.find_element("css selector", ".q-item")).click()
            page.named("Placement").click()
            page.answer("No superpod has room")
            page.wait(lambda: page.driver.find_element("css selector", 'img[src^="data:image/svg+xml"]'))
            page.driver.set_window_size(1200, 1700)
            page.driver.save_screenshot(str(_FOLDER / "placement.png"))
            page.open(address, 430, 1000)
            page.answer("refused", "Each container needs a memory limit.")
            page.named("Dark or light").click()
            page.wait(lambda: "body--dark" in page.driver.execute_script("return document.body.className"))
            page.driver.save_screenshot(str(_FOLDER / "narrow.png"))
        finally:
            page.driver.quit()


if __name__ == "__main__":
    main()
