"""The page: editors for a policy and an object, and below them, while one types, what Kubernetes would say.

Each answer is computed in a child process that a newer one ends, so that no policy holds up the page. The page is for
whoever started it: a request needs the token that the command has printed, and no file is read by its path.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import secrets
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec.structs import asdict
from nicegui import Client, app, background_tasks, core, ui
from starlette.datastructures import URL
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from policies.cel.cost import EXPRESSION_LIMIT
from policies.cel.explain import Branch
from policies.kubernetes.release import RELEASES
from webhook.child import Child
from webhook.cli.output import InputError
from webhook.limits import Limits
from webhook.playground import trial as trials
from webhook.playground.trial import Answer, Trial, gallery

T = TypeVar("T")

_PAUSE_SECONDS = 0.04
"""From the last key to the beginning of an answer."""
_LIMITS = Limits(memory=512 * 2**20, seconds=4)
_EDITORS = {"policy": "Policy or expression", "object": "Object", "old": "Old object", "nodes": "Nodes"}
_REQUEST = {"user": "User", "groups": "Groups", "namespace": "Namespace", "labels": "Labels of the Namespace"}
_COLOURS = {"admitted": "positive", "refused": "negative", "unreadable": "warning"}
_STYLE = """
.cm-editor { height: 100%; } .nicegui-codemirror { height: clamp(14rem, 42vh, 26rem); }
.mark-error { background: rgba(220, 38, 38, .18); } .mark-warning, .mark-lint { background: rgba(217, 119, 6, .18); }
.mark-note { background: rgba(37, 99, 235, .14); }
.answer { white-space: pre-wrap; overflow-wrap: anywhere; font-family: monospace; font-size: .85rem; }
.stale { opacity: .35; transition: opacity .2s .4s; }
.q-tree .outcome { opacity: .8; } .q-tree .is-false { color: #dc2626; opacity: 1; font-weight: 600; }
.body--dark .q-tree .is-false { color: #f87171; }
"""
_ROW = """
<span class="answer">{{ props.node.label }}
<span class="outcome" :class="{'is-false': props.node.bad}">{{ props.node.outcome }}</span></span>
"""


def serve(port: int, kubeconfig: str, *, show: bool, ready: Callable[[str], None]) -> None:
    """Serve the page on 127.0.0.1 until Ctrl-C. ready: called with its address, which has the token."""
    token = secrets.token_urlsafe(24)
    _, first = gallery()[0]  # what its answers import, the processes of others have then
    trials.details(first, trials.answer(first))
    trials.placement(first)
    core.sio.eio.cors_allowed_origins = [f"http://{host}:{port}" for host in ("127.0.0.1", "localhost")]
    # It warns of a mark at a line that somebody has deleted while the answer was on its way.
    logging.getLogger("nicegui").setLevel(logging.ERROR)
    app.add_middleware(_Guard, token=token, port=port)
    app.on_startup(lambda: ready(f"http://127.0.0.1:{port}/?token={token}"))

    @ui.page("/", title="cks-admission playground", dark=None)
    async def page(client: Client) -> None:
        shown = _Page(kubeconfig)
        await client.connected()
        await shown.begin()

    ui.run(
        host="127.0.0.1",
        port=port,
        reload=False,
        show=f"/?token={token}" if show else False,
        show_welcome_message=False,
        favicon="⎈",
    )


class _Guard:
    """Lets in who has the token, under the name of this machine: another site cannot ask in a browser's name."""

    def __init__(self, inner: Any, token: str, port: int) -> None:
        self._inner, self._token, self._cookie = inner, token, f"playground-{port}"
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] in ("http", "websocket") and (refusal := self._refusal(HTTPConnection(scope))) is not None:
            if scope["type"] == "http":
                await refusal(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})
            return
        await self._inner(scope, receive, send)

    def _refusal(self, asked: HTTPConnection) -> Response | None:
        if asked.headers.get("host") not in self._hosts:
            return PlainTextResponse("This address is not that of the playground.\n", 421)
        if self._is(asked.cookies.get(self._cookie)):
            return None
        if not self._is(asked.query_params.get("token")):
            return PlainTextResponse("Open the address that `cks-admission playground` printed: it has a token.\n", 403)
        response = RedirectResponse(URL(str(asked.url)).path, 303)
        response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
        return response

    def _is(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), self._token.encode())


async def _computed(work: Callable[[], T], otherwise: Callable[[str], T]) -> T:
    """The result of some work in a child process, which is killed if nobody waits any more.

    otherwise: makes the result of the reason for which there is none.
    """
    child = Child(lambda: iter([work()]), _LIMITS)
    try:
        end = await asyncio.shield(child.ended)
    except asyncio.CancelledError:
        child.kill()
        raise
    results = list(end.results())
    return results[0] if results else otherwise(end.reason or "it failed")


class _Page:
    """What one browser shows, and the trial on it."""

    def __init__(self, kubeconfig: str) -> None:
        self._kubeconfig = kubeconfig
        self._client = ui.context.client
        self._client.on_delete(self._end)
        self._running: asyncio.Task[Any] | None = None
        self._has_begun = False
        self._editors: dict[str, ui.codemirror] = {}
        self._fields: dict[str, Any] = {}
        ui.add_css(_STYLE)
        self._dark = ui.dark_mode()
        self._head()
        with ui.row().classes("w-full gap-4 items-stretch"):
            self._pane(("policy", "nodes"))
            self._pane(("object", "old"), request=True)
        self._answers()

    async def begin(self) -> None:
        """Show the trial of the link, if there is one, or the first example."""
        self._shade(dark=await ui.run_javascript("matchMedia('(prefers-color-scheme: dark)').matches"))
        fragment = await ui.run_javascript("location.hash.slice(1)")
        self._has_begun = True
        try:
            self._write(trials.from_link(fragment) if fragment else gallery()[0][1])
        except ValueError as error:
            ui.notify(str(error), type="negative")
            self._write(gallery()[0][1])

    def _head(self) -> None:
        with ui.row().classes("w-full items-center gap-3"):
            ui.label("cks-admission playground").classes("text-lg font-semibold")
            release = ui.select([release.name for release in RELEASES], label="Kubernetes").classes("w-28")
            self._fields["release"] = release.on_value_change(self._changed)
            names = {index: name for index, (name, _) in enumerate(gallery())}
            chosen = ui.select(names, label="Example", with_input=True, clearable=True).classes("min-w-0 basis-64 grow")
            chosen.on_value_change(
                lambda event: self._write(gallery()[event.value][1]) if event.value is not None else None
            )
            ui.button("Copy link", icon="link", on_click=self._copy).props("flat")
            ui.button("Save as suite", icon="save", on_click=self._save).props("flat")
            ui.button(icon="contrast", on_click=lambda: self._shade(dark=not self._dark.value)).props(
                'flat round aria-label="Dark or light"'
            )

    def _pane(self, names: Sequence[str], *, request: bool = False) -> None:
        """Editors, of which one is shown. request: whether the fields of the request are beside them."""
        with ui.column().classes("grow basis-96 min-w-0 max-w-full gap-0"):
            with ui.tabs().props("dense no-caps align=left").classes("max-w-full") as tabs:
                for name in names:
                    ui.tab(name, label=_EDITORS[name])
                if request:
                    ui.tab("request", label="Request")
            with ui.tab_panels(tabs, value=names[0], animated=False, keep_alive=True).classes("w-full"):
                for name in names:
                    with ui.tab_panel(name).classes("p-0"):
                        editor = ui.codemirror(
                            language="YAML", indent="  ", line_wrapping=True, on_change=self._changed
                        ).classes("w-full")
                        # Tab indents in an editor; after Escape it goes on to the next part of the page.
                        editor.map_key("Escape", lambda: ui.run_javascript("document.activeElement.blur()"))
                        self._editors[name] = editor
                if request:
                    with ui.tab_panel("request"):
                        for name, label in _REQUEST.items():
                            self._fields[name] = ui.input(label, on_change=self._changed).classes("w-full")

    def _answers(self) -> None:
        self._answered = ui.row().classes("w-full items-center gap-2")
        with self._answered:
            self._verdict = ui.badge("").classes("text-base").props("aria-live=polite")
            self._releases = ui.label().classes("answer")
        tabs = ui.tabs().props("dense no-caps align=left").classes("max-w-full")
        with tabs:
            for name in ("Answer", "Expressions", "Changes", "Placement"):
                ui.tab(name)
        tabs.on_value_change(lambda event: self._changed() if event.value == "Placement" else None)
        self._tabs = tabs
        with ui.tab_panels(tabs, value="Answer", animated=False, keep_alive=True).classes("w-full"):
            with ui.tab_panel("Answer"):
                self._lines = ui.label().classes("answer")
                self._notes = ui.column().classes("gap-0")
            with ui.tab_panel("Expressions"):
                self._tree = ui.tree([], label_key="label")
                self._tree.add_slot("default-header", _ROW)
            with ui.tab_panel("Changes"):
                self._diff = ui.code(language="diff").classes("w-full")
            with ui.tab_panel("Placement"):
                self._placed = ui.label().classes("answer")
                self._map = ui.image().classes("w-full max-w-4xl bg-white").props("no-transition")

    def _trial(self) -> Trial:
        return Trial(**{name: one.value or "" for name, one in (self._editors | self._fields).items()})

    def _write(self, trial: Trial) -> None:
        for name, value in asdict(trial).items():
            (self._editors.get(name) or self._fields[name]).value = value
        self._changed()

    def _changed(self) -> None:
        """Begin a new answer in place of the last one."""
        if self._has_begun:
            self._end()
            self._answered.classes(add="stale")  # seen only if the new answer takes a while
            self._running = background_tasks.create(self._answer())

    def _end(self) -> None:
        """End the answer that is on its way."""
        if self._running is not None:
            self._running.cancel()

    async def _answer(self) -> None:
        await asyncio.sleep(_PAUSE_SECONDS)
        trial = self._trial()
        if sum(map(len, (trial.policy, trial.object, trial.old, trial.nodes))) > trials.LARGEST:
            answer = Answer(lines=(f"Over {trials.LARGEST >> 20} MiB: the API server takes no object of this size.",))
        else:
            answer = await _computed(lambda: trials.answer(trial), lambda why: Answer(lines=(f"No answer: {why}.",)))
        with self._client:
            self._answered.classes(remove="stale")
            self._verdict.text = answer.verdict
            self._verdict.props(f"color={_COLOURS[answer.verdict]}")
            self._lines.text = "\n".join(answer.lines)
            self._mark(answer)
        answer = await _computed(lambda: trials.details(trial, answer), lambda _: answer)
        with self._client:
            self._show_details(answer)
            _ = ui.run_javascript(f"history.replaceState(null, '', '#{trial.link()}')")
        if self._tabs.value == "Placement":
            lines, picture = await _computed(
                lambda: trials.placement(trial, self._kubeconfig), lambda why: ((f"No answer: {why}.",), "")
            )
            with self._client:
                self._placed.text = "\n".join(lines)
                source = base64.b64encode(picture.encode()).decode()
                self._map.set_source(f"data:image/svg+xml;base64,{source}" if picture else "")

    def _mark(self, answer: Answer) -> None:
        for name, editor in self._editors.items():
            last = (editor.value or "").count("\n") + 1  # the text may be shorter by now
            marks = [mark for mark in answer.marks if mark.editor == name and mark.line <= last]
            editor.decorations = [{"kind": "line", "line": mark.line, "class": f"mark-{mark.level}"} for mark in marks]
            editor.line_tooltips = {mark.line: mark.text for mark in marks}

    def _show_details(self, answer: Answer) -> None:
        self._mark(answer)
        other = (f"Kubernetes {name}: {text or 'the same'}" for name, text in answer.releases.items())
        self._releases.text = "   ".join(other)
        self._tree.props["nodes"] = [
            _node(
                str(index), f"{row.path}, line {row.line}: {row.text}",
                f"= {row.value}{f' ({row.type})' if row.type else ''}, cost {row.cost:,} of {EXPRESSION_LIMIT:,}",
                () if row.tree is None else row.tree.parts, bad=row.value == "false" or not row.type,
            )
            for index, row in enumerate(answer.rows)
        ]  # fmt: skip
        self._diff.content = answer.diff or "Nothing is changed."
        self._notes.clear()
        with self._notes:
            for mark in (mark for mark in answer.marks if mark.level == "lint"):
                text = f"policy.yaml:{mark.line}:{mark.column}: {mark.text}"
                where = self._editors[mark.editor]
                note = ui.label(text).classes("answer cursor-pointer").props("tabindex=0 role=button")
                note.on("click", lambda where=where, line=mark.line: where.reveal_line(line))
                note.on("keydown.enter", lambda where=where, line=mark.line: where.reveal_line(line))

    async def _copy(self) -> None:
        await ui.run_javascript("navigator.clipboard.writeText(location.href)")
        ui.notify("The link has all texts in it. It opens in any playground.")

    async def _save(self) -> None:
        trial = self._trial()

        def made() -> tuple[str, str]:
            try:
                return trials.suite(trial), ""
            except InputError as error:
                return "", error.message

        text, problem = await _computed(made, lambda why: ("", f"No suite: {why}."))
        if problem:
            ui.notify(problem, type="negative", multi_line=True)
            return
        ui.download.content(text, "playground.suite.yaml")
        ui.download.content(trial.policy, "policy.yaml")

    def _shade(self, *, dark: bool) -> None:
        self._dark.value = dark
        for editor in self._editors.values():
            editor.theme = "vscodeDark" if dark else "basicLight"


def _node(number: str, label: str, outcome: str, parts: Sequence[Branch], *, bad: bool) -> dict[str, Any]:
    """An expression as a node of the tree: what it came to, and its parts below it."""
    below = [
        _node(f"{number}.{index}", part.expression, part.outcome, part.parts,
              bad=part.outcome == "is false" or part.outcome.startswith("failed"))
        for index, part in enumerate(parts)
    ]  # fmt: skip
    return {"id": number, "label": label, "outcome": outcome, "bad": bad, "children": below}
