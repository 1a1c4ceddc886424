// The chat page's script, on as much of a document as it uses: node --test chat_page_test.mjs
import assert from "node:assert";
import {readFileSync} from "node:fs";
import test from "node:test";
import vm from "node:vm";

const page = readFileSync(new URL("../../../host/server/chat_page.html", import.meta.url), "utf8");
const script = page.match(/<script>\n(.*)<\/script>/s)[1];

class FakeElement {
  constructor(tag) {
    this.tag = tag;
    this.className = "";
    this.value = "";
    this.children = [];
    this.attributes = {};
    this.listeners = {};
    this.parent = null;
    this.scrollTop = 0;
    this.clientHeight = 100;
  }
  get textContent() { return this.children.map((child) => child.textContent ?? child).join(""); }
  set textContent(text) { this.children = text === "" ? [] : [text]; }
  get firstChild() { return this.children[0]; }
  get lastChild() { return this.children.at(-1); }
  get scrollHeight() { return 50 * this.children.length; }
  take(child) {
    if (child instanceof FakeElement) child.parent = this;
    return child;
  }
  append(...added) { this.children.push(...added.map((child) => this.take(child))); }
  prepend(child) { this.children.unshift(this.take(child)); }
  remove() { if (this.parent) this.parent.children = this.parent.children.filter((child) => child !== this); }
  replaceChildren() { this.children = []; }
  setAttribute(name, value) { this.attributes[name] = value; }
  removeAttribute(name) { delete this.attributes[name]; }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  dispatch(name, event = {}) { this.listeners[name]({preventDefault() {}, ...event}); }
  focus() {}
  requestSubmit() { this.dispatch("submit"); }
}

const next_turn = () => new Promise((resolve) => setTimeout(resolve, 1));
const content = (text) => ({choices: [{index: 0, delta: {content: text}, finish_reason: null}]});

// What an answer's stream is made of, and how it ends.
class Stream {
  constructor(signal) {
    this.body = new ReadableStream({start: (controller) => { this.controller = controller; }});
    this.ok = true;
    const stop = () => this.controller.error(Object.assign(new Error("aborted"), {name: "AbortError"}));
    signal.addEventListener("abort", () => { try { stop(); } catch {} });
  }
  write(text) { this.controller.enqueue(new TextEncoder().encode(text)); }
  send(event) { this.write(`data: ${JSON.stringify(event)}\n\n`); }
  finish() { this.write("data: [DONE]\n\n"); this.controller.close(); }
  lose() { this.controller.error(new TypeError("network error")); }
}

class Page {
  constructor() {
    this.elements = new Map();
    this.requests = [];
    this.frames = [];
    this.streams = [];
    this.now = 0;
    this.refuse = () => null;  // what fetch() throws or answers instead of a stream
    const element = (id) => {
      if (!this.elements.has(id)) this.elements.set(id, new FakeElement("?"));
      return this.elements.get(id);
    };
    this.by = element;
    const globals = {
      document: {
        getElementById: element,
        createElement: (tag) => new FakeElement(tag),
        querySelectorAll: (selector) => {
          assert.equal(selector, "#messages .error");
          return this.messages("error");
        },
      },
      fetch: async (path, options) => {
        if (path === "v1/models") return {ok: true, json: async () => ({data: [{id: "a model"}]})};
        this.requests.push({path, headers: options.headers, body: JSON.parse(options.body)});
        const instead = this.refuse();
        if (instead instanceof Error) throw instead;
        if (instead) return instead;
        this.streams.push(new Stream(options.signal));
        return this.streams.at(-1);
      },
      performance: {now: () => this.now},
      requestAnimationFrame: (frame) => this.frames.push(frame),
      cancelAnimationFrame: (number) => { this.frames[number - 1] = () => {}; },
      TextDecoderStream, AbortController, JSON, Error, TypeError, Number,
    };
    vm.runInNewContext(script, globals);
  }
  messages(kind) { return this.by("messages").children.filter((child) => child.className === `message ${kind}`); }
  texts(kind) { return this.messages(kind).map((message) => message.textContent); }
  show_frame() { for (const frame of this.frames.splice(0)) frame(); }
  async say(text) {
    this.by("text").value = text;
    this.by("form").dispatch("submit");
    await next_turn();
    return this.streams.at(-1);
  }
}

// Of the answer's text, or of what was thought before it.
const lines_of = (element) => element.children.map((line) => (line.firstChild?.tag === "br" ? "" : line.textContent));

test("an answer is shown line by line, and is whole in the conversation", async () => {
  const page = new Page();
  const stream = await page.say("hi");
  for (const piece of ["a", "b\n", "\nc", "\n\n\nd"]) stream.send(content(piece));
  await next_turn();
  page.show_frame();
  const [answer] = page.messages("assistant");
  assert.deepEqual(lines_of(answer.children[0]), ["ab", "", "c", "", "", "d"]);
  assert.equal(answer.attributes["aria-busy"], "true");
  stream.send(content("e"));
  stream.finish();
  await next_turn();  // without a frame
  assert.deepEqual(lines_of(answer.children[0]), ["ab", "", "c", "", "", "de"]);
  assert.equal(answer.attributes["aria-busy"], undefined);
  await page.say("more");
  assert.deepEqual(page.requests[1].body.messages, [
    {role: "user", content: "hi"}, {role: "assistant", content: "ab\n\nc\n\n\nde"}, {role: "user", content: "more"}]);
});

test("lines that are shown stay the elements that they are", async () => {
  const page = new Page();
  const stream = await page.say("hi");
  stream.send(content("one\ntw"));
  await next_turn();
  page.show_frame();
  const text = page.messages("assistant")[0].children[0];
  const [first, second] = text.children;
  stream.send(content("o"));
  await next_turn();
  page.show_frame();
  assert.equal(text.children[0], first);
  assert.equal(text.children[1], second);
  assert.deepEqual(second.children, ["tw", "o"]);
});

test("what was thought stands in front, and is not sent again", async () => {
  const page = new Page();
  const stream = await page.say("hi");
  stream.send({choices: [{index: 0, delta: {reasoning_content: "hm\nso"}}]});
  stream.send(content("yes"));
  stream.finish();
  await next_turn();
  const [details, text] = page.messages("assistant")[0].children;
  assert.deepEqual(lines_of(details.children[1]), ["hm", "so"]);
  assert.deepEqual(lines_of(text), ["yes"]);
  await page.say("more");
  assert.deepEqual(page.requests[1].body.messages[1], {role: "assistant", content: "yes"});
});

test("the end is shown until the reader scrolls away, and again where one returns or asks", async () => {
  const page = new Page(), box = page.by("messages");
  const scroll_to = (top) => { box.scrollTop = top; box.dispatch("scroll"); };
  const stream = await page.say("hi");
  const grow = async () => {
    box.append(new FakeElement("div"));
    stream.send(content("x"));
    await next_turn();
    page.show_frame();
  };
  for (let i = 0; i < 4; ++i) await grow();
  assert.equal(box.scrollTop, box.scrollHeight);
  scroll_to(10);
  await grow();
  assert.equal(box.scrollTop, 10);
  scroll_to(box.scrollHeight - box.clientHeight);
  await grow();
  assert.equal(box.scrollTop, box.scrollHeight);
  scroll_to(0);
  stream.finish();
  await next_turn();
  await page.say("more");
  assert.equal(box.scrollTop, box.scrollHeight);
});

test("what is cut off is kept, and said in the page's words", async () => {
  const page = new Page();
  const stream = await page.say("hi");
  stream.send(content("half"));
  await next_turn();
  stream.lose();
  await next_turn();
  assert.deepEqual(page.texts("error"), ["The answer was cut off on its way."]);
  await page.say("more");
  assert.deepEqual(page.texts("error"), [], "errors go when something else is said");
  assert.deepEqual(page.requests[1].body.messages[1], {role: "assistant", content: "half"});
});

test("a question that is not answered goes back to its box", async () => {
  const page = new Page();
  page.refuse = () => new TypeError("Failed to fetch");
  await page.say("hi");
  assert.deepEqual(page.texts("error"), ["The server cannot be reached."]);
  assert.equal(page.by("text").value, "hi");
  page.refuse = () => ({ok: false, status: 400, text: async () => '{"error": {"message": "no"}}'});
  await page.say("hi");
  assert.deepEqual(page.texts("error"), ["no"]);
  page.refuse = () => ({ok: false, status: 502, statusText: "Bad Gateway", text: async () => "<html>"});
  await page.say("hi");
  assert.deepEqual(page.texts("error"), ["502 Bad Gateway"]);
  assert.deepEqual(page.texts("user"), []);
  assert.equal(page.requests[2].body.messages.length, 1);
});

test("a question of an older conversation does not go into the new one's box", async () => {
  const page = new Page();
  await page.say("old");
  page.by("clear").dispatch("click");
  await next_turn();
  assert.equal(page.by("text").value, "");
  assert.deepEqual(page.by("messages").children, []);
});

test("Stop keeps what has come; a double click's second does not stop", async () => {
  const page = new Page();
  const stream = await page.say("hi");
  stream.send(content("some"));
  await next_turn();
  page.now = 100;
  page.by("form").dispatch("submit");
  await next_turn();
  assert.equal(page.by("send").textContent, "Stop");
  page.now = 1000;
  page.by("form").dispatch("submit");
  await next_turn();
  assert.equal(page.by("send").textContent, "Send");
  assert.deepEqual(page.texts("assistant"), ["some"]);
  assert.deepEqual(page.texts("error"), []);
});

test("Enter sends, but not the one that ends a composition", async () => {
  const page = new Page();
  page.by("text").value = "hi";
  for (const event of [{key: "Enter", isComposing: true}, {key: "Enter", keyCode: 229}, {key: "Enter", shiftKey: true}])
    page.by("text").dispatch("keydown", event);
  assert.equal(page.requests.length, 0);
  page.by("text").dispatch("keydown", {key: "Enter", keyCode: 13});
  await next_turn();
  assert.equal(page.requests.length, 1);
});

test("a key is sent as a bearer's, and one that cannot be is named", async () => {
  const page = new Page();
  page.by("key").value = "schl\u00fcssel";
  await page.say("hi");
  assert.deepEqual(page.texts("error"), ["The API key has characters that none can have."]);
  assert.equal(page.requests.length, 0);
  page.by("key").value = "secret";
  await page.say("hi");
  assert.equal(page.requests[0].headers.Authorization, "Bearer secret");
});
