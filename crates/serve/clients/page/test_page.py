"""Checks the chat page in a headless browser.

    python3 test_page.py SERVER PAGE [NAME...]

SERVER is the address of a running `wgoose serve`, PAGE the file. A proxy serves the page with the headers that the
server will send, answers prompts that begin with "canned:" itself and forwards everything else. Needs Playwright and
Chromium (CHROMIUM, /usr/bin/chromium). Exit code 0: all checks passed.
"""

import json
import os
import re
import sys
import tempfile
import time
import traceback
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parent))
from proxy import CANNED, Proxy

TESTS = []
IDLE, BUSY = "#send[aria-label=Send]", "#send[aria-label=Stop]"


def test(check):
    TESTS.append(check)
    return check


class Bench:
    """One fresh browser profile with the page open."""

    def __init__(self, browser, proxy, **options):
        self.proxy, self.errors = proxy, []
        proxy.key, proxy.full = None, 0
        proxy.requests.clear()
        options = {"viewport": {"width": 1280, "height": 800}, **options}
        self.context = browser.new_context(**options)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=proxy.address)
        self.page = self.context.new_page()
        self.page.set_default_timeout(300000)
        self.watch(self.page)
        self.page.goto(proxy.address)

    def watch(self, page):
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        # Refusals are expected. Violations of the policy and broken resources are not.
        page.on("console", lambda said: self.errors.append(said.text)
                if said.type in ("error", "warning") and "Failed to load resource" not in said.text else None)

    def ask(self, text, wait=True):
        self.page.fill("#prompt", text)
        self.page.press("#prompt", "Enter")
        if wait:
            self.page.wait_for_selector(IDLE)

    def until(self, condition):
        """Waits for a condition. Playwright's own wait_for_function needs eval, which the policy forbids."""
        for _ in range(200):
            if self.page.evaluate(condition):
                return
            self.page.wait_for_timeout(100)
        raise AssertionError(f"it never came: {condition}")

    def text(self, selector):
        return self.page.locator(selector).last.inner_text()

    def titles(self):
        return self.page.locator(".chats .name").all_inner_texts()

    def answers(self):
        return self.page.locator(".answer .text").all_inner_texts()

    def asked(self):
        return self.proxy.requests[-1]


def equal(got, wanted):
    assert got == wanted, f"{got!r} is not {wanted!r}"


def contains(text, *parts):
    for part in parts:
        assert part in text, f"{part!r} is not in {text!r}"


@test
def model_streams(bench):
    """An answer of the real model comes in pieces and ends with its figures."""
    page = bench.page
    bench.until("document.querySelector('#model').textContent != 'wgoose'")
    page.click("#settings-button")
    page.fill("[name=max_tokens]", "24")
    page.fill("[name=temperature]", "0")
    page.fill("[name=system]", "Be brief.")
    page.click("#done")
    page.evaluate("""() => {
      window.lengths = new Set();
      const note = () => lengths.add(document.querySelector('.answer .text')?.textContent.length ?? 0);
      new MutationObserver(note).observe(document.querySelector('#log'), { subtree: true, childList: true, characterData: true });
    }""")
    bench.ask("#[stable(feature = ")
    assert page.evaluate("lengths.size") > 2, "the text did not grow in steps"
    note = bench.text(".note")
    contains(note, "24 tokens ·", "tokens/s", "to first token", "prompt tokens cached", "seed", "cut at max_tokens")
    asked = bench.asked()
    equal([m["role"] for m in asked["messages"]], ["system", "user"])
    equal((asked["max_tokens"], asked["temperature"], asked["stream"]), (24, 0, True))
    equal(asked["stream_options"], {"include_usage": True})
    assert "top_p" not in asked, "an empty setting is left to the server"
    bench.ask("And then?")
    equal([m["role"] for m in bench.asked()["messages"]], ["system", "user", "assistant", "user"])
    # The state at the end of a long prompt is cached.
    bench.ask(f"{time.time()} " + "a long prompt " * 60)
    page.locator("[aria-label='Answer again']").last.click()
    page.wait_for_selector(IDLE)
    found = re.search(r"([\d,]+) of ([\d,]+) prompt tokens cached", bench.text(".note"))
    assert found and found[1] not in ("0", found[2]), bench.text(".note")


@test
def a_chat_is_forked_from_a_saved_state(bench):
    """The fork continues from the state on the server; without the state, from its messages."""
    page = bench.page
    save, fork = "[aria-label='Save the state on the server']", "[aria-label='Fork a chat from the saved state']"
    bench.until("document.querySelector('#model').textContent != 'wgoose'")
    page.click("#settings-button")
    page.fill("[name=max_tokens]", "8")
    page.fill("[name=temperature]", "0")
    page.click("#done")
    bench.ask("#[stable(feature = ")
    page.locator(save).last.click()
    page.wait_for_selector("#notice button")
    assert page.locator(fork).last.is_visible() and not page.locator(save).last.is_visible()
    page.click("#notice button")
    equal((len(bench.titles()), len(bench.answers())), (2, 1))
    bench.ask("And then?")
    asked = bench.asked()
    equal([m["content"] for m in asked["messages"]], ["And then?"])
    state, forked = asked["state_id"], bench.answers()
    equal(len(forked), 2)
    contains(bench.text(".note"), "8 tokens")
    bench.ask("And now?")
    equal((len(bench.asked()["messages"]), "state_id" in bench.asked()), (5, False))
    # The first chat stays as it was, and can be forked again after a reload.
    page.reload()
    page.locator(".chats .name").nth(1).click()
    equal(len(bench.answers()), 1)
    page.locator(fork).click()
    # A state that was deleted is replaced by the messages.
    page.evaluate("(state) => fetch(`v1/states/${state}`, { method: 'DELETE' })", state)
    bench.ask("And then?")
    equal((len(bench.asked()["messages"]), "state_id" in bench.asked()), (3, False))
    equal(len(bench.answers()), 2)


@test
def markdown_is_built_safely(bench):
    page = bench.page
    bench.ask("canned: think")
    assert page.evaluate("window.hacked === undefined && !document.querySelector('.text img')")
    equal(page.locator(".text .block code").text_content().split("\n")[0], "use std::collections::VecDeque;")
    contains(page.locator(".text .block code").text_content(), "Gänse 🪿", "// a long line that is wider")
    equal(page.locator(".text strong code").inner_text(), "VecDeque")
    equal(page.locator(".text h3").inner_text(), "Steps")
    equal(page.locator(".text > div > ol > li > ul > li").all_inner_texts(), ["with a capacity, or", "empty"])
    equal(page.locator(".text ol").last.get_attribute("start"), "3")
    bench.ask("canned: code")
    last = page.locator(".answer").last
    equal(last.locator(".block code").text_content(), "<b>a</b>\n``` b")
    equal(last.locator("p code").all_inner_texts(), ["x < y", "a ` b"])
    equal(last.locator("p").inner_text(), "Then x < y and a ` b, 2 ** 3, bold and snake_case.\nA second line.")


@test
def cuts_do_not_matter(bench):
    """An answer that was drawn piece by piece equals the one that is drawn at once after a reload."""
    page = bench.page
    bench.ask("canned: think")
    streamed = page.locator(".answer .text").inner_html()
    page.reload()
    equal(page.locator(".answer .text").inner_html(), streamed)


@test
def thoughts_are_folded(bench):
    page = bench.page
    page.evaluate("""() => {
      window.seen = [];
      new MutationObserver(() => {
        const fold = document.querySelector('.thoughts'), text = document.querySelector('.text');
        if (fold && !fold.hidden) seen.push([fold.open, fold.textContent, text.hidden ? '' : text.textContent]);
        else if (text) seen.push([false, '', text.textContent]);
      }).observe(document.querySelector('#log'), { subtree: true, childList: true, characterData: true });
    }""")
    bench.ask("canned: think")
    seen = page.evaluate("seen")
    assert any("ring" in thought and not answer for _, thought, answer in seen), "thoughts are shown while they stream"
    assert not any(is_open for is_open, _, _ in seen), "the fold stays closed"
    assert not any("<" in thought or answer.startswith("<") for _, thought, answer in seen), "no part of a tag is shown"
    page.click(".thoughts summary")
    contains(bench.text(".thoughts"), "The reader asks for a queue in Rust.", "`VecDeque`")
    bench.ask("canned: only thoughts")
    contains(page.locator(".thoughts div").last.text_content(), "Still thinking <")


@test
def thoughts_come_apart(bench):
    """`reasoning_content` is folded too, and thoughts are no part of the next turn."""
    page = bench.page
    page.click("#settings-button")
    page.select_option("[name=reasoning_effort]", "medium")
    page.click("#done")
    bench.ask("canned: reasoning")
    equal(bench.asked()["reasoning_effort"], "medium")
    equal(bench.answers(), ["Yes."])
    equal(page.locator(".thoughts div").text_content(), "Hm, a < b.")
    contains(bench.text(".note"), "about 4 tokens")
    page.reload()
    equal(page.locator(".thoughts div").text_content(), "Hm, a < b.")
    bench.ask("canned: think")
    bench.ask("canned: short")
    said = [m["content"] for m in bench.asked()["messages"]]
    equal(said[:3], ["canned: reasoning", "Yes.", "canned: think"])
    assert said[3].startswith("Use **`VecDeque`**"), said[3]


@test
def stop_keeps_what_came(bench):
    page = bench.page
    for stop in (lambda: page.keyboard.press("Escape"), lambda: page.click("#send")):
        bench.ask("canned: slow", wait=False)
        page.wait_for_timeout(1000)
        stop()
        page.wait_for_selector(IDLE)
        contains(bench.text(".note"), "about", "stopped", "tokens/s")
        contains(bench.text(".text"), "word9")
        assert "word150" not in bench.text(".text")
    assert not page.locator(".error:visible").count()


@test
def a_reload_keeps_chats(bench):
    page = bench.page
    bench.ask("canned: short")
    page.click("#new")
    bench.ask("canned: code")
    page.click("#new")
    bench.ask("canned: slow", wait=False)
    page.wait_for_selector("text=word9")
    page.reload()
    equal(bench.titles(), ["canned: slow", "canned: code", "canned: short"])
    contains(bench.text(".text"), "word9")
    contains(bench.text(".note"), "stopped")
    page.click("text=canned: short")
    equal(bench.answers(), ["Fine, thank you."])
    contains(bench.text(".note"), "96 of 120 prompt tokens cached")
    page.reload()
    equal(page.locator("[aria-current=page]").inner_text(), "canned: short")


@test
def chats_are_deleted_and_restored(bench):
    page = bench.page
    bench.ask("canned: short")
    page.click("[aria-label='Delete canned: short']")
    equal((bench.titles(), page.locator(".hello").count()), ([], 1))
    page.click("text=Undo")
    equal((bench.titles(), bench.answers()), (["canned: short"], ["Fine, thank you."]))
    page.click("[aria-label='Delete canned: short']")
    page.reload()
    equal(bench.titles(), [])


@test
def answers_again_with_another_seed(bench):
    page = bench.page
    page.click("#settings-button")
    page.fill("[name=seed]", "7")
    page.keyboard.press("Escape")
    bench.ask("canned: short")
    equal(bench.asked()["seed"], 7)
    page.click("[aria-label='Answer again']")
    page.wait_for_selector(IDLE)
    assert bench.asked()["seed"] != 7
    equal(len(bench.asked()["messages"]), 1)
    equal(bench.answers(), ["Fine, thank you."])
    bench.proxy.full = 1
    page.click("[aria-label='Answer again']")
    page.wait_for_selector("text=The queue of the server is full")
    equal(bench.answers(), ["Fine, thank you."])  # The old answer stays.


@test
def the_last_message_is_edited(bench):
    page = bench.page
    bench.ask("canned: short")
    bench.ask("canned: length")
    contains(bench.text(".note"), "cut at max_tokens")
    equal(page.locator("[aria-label=Edit]:visible").count(), 1)
    page.locator("[aria-label=Edit]:visible").click()
    equal(page.input_value("#prompt"), "canned: length")
    page.keyboard.press("Escape")
    equal(page.input_value("#prompt"), "")
    page.locator("[aria-label=Edit]:visible").click()
    bench.ask("canned: code")
    equal(page.locator(".said").all_inner_texts(), ["canned: short", "canned: code"])
    equal([m["content"] for m in bench.asked()["messages"]], ["canned: short", "Fine, thank you.", "canned: code"])


@test
def errors_are_one_line(bench):
    page = bench.page
    bench.ask("canned: refused")
    equal(bench.text(".error .bad"), "temperature: -1 is not a finite number")
    bench.ask("canned: break")
    contains(bench.text(".error .bad"), "The answer broke off")
    equal(bench.answers()[-1], "Half an ans")
    bench.ask("canned: failure")
    equal(bench.text(".error .bad"), "the device was lost")
    bench.proxy.full = 1
    bench.ask("canned: short")
    equal(bench.text(".error .bad"), "The queue of the server is full. Try again in a moment.")
    page.get_by_role("button", name="Try again").last.click()
    page.wait_for_selector(IDLE)
    equal(bench.answers()[-1], "Fine, thank you.")
    roles = [m["role"] for m in bench.asked()["messages"]]
    equal(roles, ["user", "user", "assistant", "user", "assistant", "user"])
    page.route("**/v1/chat/completions", lambda route: route.abort())
    bench.ask("canned: short")
    equal(bench.text(".error .bad"), "The server does not answer.")
    bench.ask("canned: empty", wait=True)
    page.unroute("**/v1/chat/completions")
    page.get_by_role("button", name="Try again").last.click()
    page.wait_for_selector(IDLE)
    contains(bench.text(".note"), "an empty answer")


@test
def a_key_is_asked_for(bench):
    page = bench.page
    bench.proxy.key = "secret"
    page.reload()
    page.wait_for_selector("#key:visible")
    contains(bench.text("#key-why"), "The server asks for an API key.")
    bench.ask("canned: short")
    equal(bench.text(".error .bad"), "The server asks for an API key.")
    page.fill("#key-value", "wrong")
    page.press("#key-value", "Enter")
    page.wait_for_selector("#key:visible >> text=The server refuses this API key.")
    page.fill("#key-value", "secret")
    page.click("text=Use this key")
    bench.until("document.querySelector('.answer .text')?.textContent == 'Fine, thank you.'")
    bench.until("!document.querySelector('#model').textContent.includes('server')")
    page.reload()
    bench.ask("canned: code")
    equal(page.locator(".error:visible").count(), 0)
    equal(page.evaluate("Object.values(localStorage).filter((value) => value.includes('secret')).length"), 0)


@test
def export_and_import(bench):
    page = bench.page
    bench.ask("canned: think")
    page.click("#new")
    bench.ask("canned: short")
    with page.expect_download() as waiting:
        page.click("#export")
    file = Path(tempfile.mkdtemp()) / waiting.value.suggested_filename
    waiting.value.save_as(file)
    assert re.fullmatch(r"wgoose-chats-\d{4}-\d\d-\d\d\.json", file.name)
    saved = json.loads(file.read_text())
    equal(sorted(chat["messages"][0]["content"] for chat in saved["chats"]), ["canned: short", "canned: think"])
    page.click("[aria-label='Delete canned: short']")
    saved["chats"] += [None, 7, {"id": 3}, {"id": "x", "messages": [{"role": "tool", "content": "y"}]},
                       {"id": "<b>", "messages": [{"role": "user", "content": "<img src=x onerror=hacked=1>"}], "more": 1}]
    file.write_text(json.dumps(saved))
    page.set_input_files("#file", file)
    page.wait_for_selector("text=2 of 7 chats were new and are imported.")
    equal(len(bench.titles()), 3)
    page.reload()
    page.click("text=canned: think")
    contains(page.locator(".thoughts").text_content(), "ring buffer")
    file.write_text("no JSON")
    page.set_input_files("#file", file)
    page.wait_for_selector(f"text={file.name} has no chats.")


@test
def keys_and_focus(bench):
    page = bench.page
    equal(page.evaluate("document.activeElement.id"), "prompt")
    page.keyboard.type("one")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("two")
    equal(page.input_value("#prompt"), "one\ntwo")
    height = page.locator("#prompt").bounding_box()["height"]
    assert height > 50, "the field grows with its text"
    page.fill("#prompt", "   ")
    page.keyboard.press("Enter")
    equal(page.locator(".said").count(), 0)
    bench.ask("canned: short")
    equal(page.evaluate("document.activeElement.id"), "prompt")
    # Everything that has focus can be seen and has a name.
    names = []
    for _ in range(24):
        page.keyboard.press("Tab")
        names.append(page.evaluate("""() => {
          const at = document.activeElement;
          if (at === document.body) return null;
          const style = getComputedStyle(at), ring = style.outlineStyle !== 'none' || at.matches('#prompt');
          const name = at.getAttribute('aria-label') || at.textContent || at.tagName === 'PRE';
          return [at.id || at.className || at.tagName, ring, !!name];
        }"""))
    names = [name for name in names if name]
    assert all(ring and name for _, ring, name in names), names
    seen = {name for name, _, _ in names}
    for one in ("new", "export", "import", "metrics-button", "settings-button", "log", "prompt", "send"):
        assert one in seen, f"{one} is not reached with Tab: {seen}"
    page.focus("#settings-button")
    page.keyboard.press("Enter")
    assert page.evaluate("document.querySelector('#settings').contains(document.activeElement)")
    page.keyboard.press("Escape")
    equal(page.evaluate("document.activeElement.id"), "settings-button")


@test
def a_screen_reader_hears_whole_answers(bench):
    page = bench.page
    page.evaluate("""() => {
      window.said = [];
      new MutationObserver(() => said.push(document.querySelector('#spoken').textContent))
        .observe(document.querySelector('#spoken'), { childList: true });
    }""")
    bench.ask("canned: think")
    said = page.evaluate("said")
    equal(len(said), 1)
    contains(said[0], "both ends are fast", "That is all.")
    assert "ring buffer" not in said[0]
    equal(page.locator("[aria-live], [role=status], [role=log], [role=alert]").count(), 1)
    equal(page.locator("main, nav").count(), 2)


@test
def scrolling_follows_only_at_the_end(bench):
    page = bench.page
    bench.ask("canned: long")
    at_end = "(() => { const l = document.querySelector('#log'); return l.scrollHeight - l.scrollTop - l.clientHeight < 8; })()"
    assert page.evaluate(at_end), "the page follows"
    bench.ask("canned: slow", wait=False)
    page.wait_for_selector("text=word9")
    page.mouse.move(700, 300)
    page.mouse.wheel(0, -400)
    page.wait_for_selector("#latest:visible")
    before = page.evaluate("document.querySelector('#log').scrollTop")
    page.wait_for_selector("text=word40")
    equal(page.evaluate("document.querySelector('#log').scrollTop"), before)
    page.click("#latest")
    page.wait_for_selector("text=word60")
    assert page.evaluate(at_end), "the page follows again"
    page.keyboard.press("Escape")


@test
def streaming_shifts_nothing(bench):
    page = bench.page
    page.evaluate("""() => {
      window.shifts = 0;
      new PerformanceObserver((list) => list.getEntries().forEach((entry) => { if (!entry.hadRecentInput) shifts += entry.value; }))
        .observe({ type: 'layout-shift', buffered: true });
    }""")
    page.wait_for_timeout(600)
    before = page.evaluate("shifts")
    bench.ask("canned: slow", wait=False)
    page.wait_for_selector("text=word30")
    page.keyboard.press("Escape")
    page.wait_for_timeout(300)
    shifted = page.evaluate("shifts") - before
    assert shifted < 0.1, f"layout shift {shifted}"


@test
def chats_run_side_by_side(bench):
    page = bench.page
    bench.ask("canned: slow", wait=False)
    page.wait_for_selector("text=word3")
    page.click("#new")
    bench.ask("canned: short")
    equal(bench.answers(), ["Fine, thank you."])
    equal(page.locator(".running").all_inner_texts(), ["canned: slow"])
    page.click("text=canned: slow")
    page.wait_for_selector(BUSY)
    page.wait_for_selector("text=word40")
    page.keyboard.press("Escape")
    page.wait_for_selector(IDLE)
    equal(page.locator(".running").count(), 0)


@test
def metrics_are_drawn(bench):
    page = bench.page
    assert page.is_hidden("#metrics")
    page.click("#metrics-button")
    equal(page.get_attribute("#metrics-button", "aria-expanded"), "true")
    page.click("#settings-button")
    page.fill("[name=max_tokens]", "200")
    page.keyboard.press("Escape")
    page.wait_for_timeout(300)
    bench.ask("#[stable(feature = ", wait=False)
    bench.until("""[...document.querySelectorAll('.metrics polyline')].slice(2)
      .every((line) => line.getAttribute('points')?.split(' ').length >= 2)""")
    values = page.locator(".metrics b").all_inner_texts()
    assert all(re.fullmatch(r"[\d,.]+", value) for value in values), values
    page.wait_for_selector(IDLE)
    page.reload()
    page.wait_for_selector("#metrics:visible")
    page.click("#metrics-button")
    assert page.is_hidden("#metrics")


@test
def settings_stay(bench):
    page = bench.page
    page.click("#settings-button")
    for name, value in (("temperature", "0.7"), ("top_p", "0.9"), ("max_tokens", "100"), ("seed", "5"),
                        ("presence_penalty", "0.1"), ("frequency_penalty", "0.2")):
        page.fill(f"[name={name}]", value)
    page.click("#done")
    page.reload()
    bench.ask("canned: short")
    asked = bench.asked()
    equal([asked[name] for name in ("temperature", "top_p", "max_tokens", "seed", "presence_penalty", "frequency_penalty")],
          [0.7, 0.9, 100, 5, 0.1, 0.2])
    page.click("#settings-button")
    page.click("#reset")
    page.click("#done")
    bench.ask("canned: short")
    equal(set(bench.asked()), {"messages", "stream", "stream_options", "seed"})


@test
def full_storage_is_said(bench):
    page = bench.page
    page.evaluate("""() => { let size = 1 << 22; for (let n = 0; size > 8; n += 1) {
      try { localStorage.setItem('x' + n, 'x'.repeat(size)); } catch { size >>= 1; } } }""")
    bench.ask("canned: short")
    contains(bench.text("#notice"), "The browser's storage is full")
    equal(bench.answers(), ["Fine, thank you."])


@test
def no_storage_is_said(bench):
    page = bench.context.new_page()
    bench.watch(page)
    page.add_init_script("""for (const name of ['localStorage', 'sessionStorage'])
      Object.defineProperty(window, name, { get() { throw new DOMException('denied', 'SecurityError'); } });""")
    page.goto(bench.proxy.address)
    bench.page = page
    bench.ask("canned: short")
    contains(bench.text("#notice"), "The browser allows no storage")
    equal(bench.answers(), ["Fine, thank you."])


@test
def tabs_share_chats(bench):
    other = bench.context.new_page()
    bench.watch(other)
    other.goto(bench.proxy.address)
    bench.ask("canned: short")
    other.wait_for_selector("text=canned: short")
    other.click("text=canned: short")
    bench.ask("canned: length")
    bench.page = other
    bench.until("document.querySelectorAll('.said').length == 2")


@test
def copying(bench):
    page = bench.page
    bench.ask("canned: think")
    page.locator("[aria-label='Copy answer']").click()
    bench.until("document.querySelector('#spoken').textContent == 'Copied'")
    copied = page.evaluate("navigator.clipboard.readText()")
    equal(copied.replace("\r", ""), CANNED["canned: think"].split("</think>")[1].strip())
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.click("[aria-label='Copy code']")
    page.wait_for_timeout(200)
    other = bench.context.new_page()
    other.goto(bench.proxy.address)
    contains(other.evaluate("navigator.clipboard.readText()"), "VecDeque::new();")


def on_a_phone(bench):
    """The list of chats is a drawer; nothing is wider than the screen."""
    page = bench.page
    bench.ask("canned: think")
    assert page.is_hidden("#new")
    page.click("#menu-button")
    page.wait_for_selector("#new:visible")
    equal(page.evaluate("[document.activeElement.id, document.querySelector('#main').inert]"), ["new", True])
    page.keyboard.press("Escape")
    page.wait_for_selector("#new", state="hidden")
    equal(page.evaluate("[document.activeElement.id, document.querySelector('#main').inert]"), ["menu-button", False])
    page.click("#new-phone")
    bench.ask("canned: refused")
    page.click("#menu-button")
    page.click(".chats .name >> text=canned: think")
    page.wait_for_selector("#new", state="hidden")
    contains(bench.text(".text"), "both ends")
    page.click("#metrics-button")
    wide = """[...document.querySelectorAll('main *')].filter((e) => !e.closest('pre, [hidden], .unseen')
      && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.className || e.tagName)"""
    for width in (390, 320):
        page.set_viewport_size({"width": width, "height": 700})
        equal(page.evaluate(wide), [])
    small = """[...document.querySelectorAll('.bar button, .ask button, .side button')].filter((e) => e.offsetParent
      && (e.offsetHeight < 40 || e.offsetWidth < 40)).map((e) => e.id || e.className)"""
    equal(page.evaluate(small), [])


def contrast(bench):
    """Texts have the contrast of WCAG AA, 4.5 to 1."""
    page = bench.page
    bench.ask("canned: think")
    page.click(".thoughts summary")
    bench.ask("canned: refused")
    page.click("#metrics-button")
    weak = page.evaluate("""() => {
      const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
      const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
        .map((c) => (c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)).reduce((sum, c, n) => sum + c * [.2126, .7152, .0722][n], 0);
      const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] !== 0) return c; } };
      const weak = [];
      for (const e of document.querySelectorAll('body *')) {
        const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
        if (!own || !e.checkVisibility() || e.closest('script, .unseen')) continue;
        const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
        if ((a + .05) / (b + .05) < 4.5) weak.push([e.className || e.tagName, e.textContent.slice(0, 20), (a + .05) / (b + .05)]);
      }
      return weak;
    }""")
    equal(weak, [])


def main():
    server, page, *only = sys.argv[1:]
    proxy, failed = Proxy(server, page), 0
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    runs = [(check, {}) for check in TESTS] + [(on_a_phone, phone)]
    runs += [(contrast, {"color_scheme": scheme}) for scheme in ("light", "dark")]
    with sync_playwright() as play:
        chromium = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for check, options in runs:
            if only and check.__name__ not in only:
                continue
            bench = Bench(browser, proxy, **options)
            try:
                check(bench)
                assert not bench.errors, bench.errors
                print("ok    ", check.__name__, flush=True)
            except Exception as error:
                failed += 1
                where = [line for line in traceback.format_tb(error.__traceback__) if __file__ in line][-1].strip().split("\n")
                print("FAILED", check.__name__, where[0].split(", ")[1], str(error)[:600], bench.errors, flush=True)
            bench.context.close()
        browser.close()
    print(f"{failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
