// Asks for the page anew as often as it says, and shows the answer in its place. It waits while the page is hidden or somebody is in the
// middle of something on it: a form, marked text, a link that the keyboard has come to.
"use strict";
let touched = false; // a field of a form
let asking = false;
let asked = Date.now();
addEventListener("input", () => { touched = true; });

function busy() {
  return touched || !getSelection().isCollapsed || document.querySelector("form :focus, :focus-visible") !== null;
}

function say(text) { document.getElementById("refresh").textContent = text; }

// shown maps what may be unfolded or scrolled by its name.
function shown() {
  return new Map(Array.from(document.querySelectorAll("details, [role=region]"), x => [x.tagName + x.getAttribute("aria-label"), x]));
}

// show leaves unfolded what is, and all scrolled as far as it is.
function show(page) {
  const before = Array.from(shown(), ([name, x]) => [name, x.open, x.scrollLeft, x.scrollTop]);
  document.title = page.title;
  document.body = page.body;
  const now = shown();
  for (const [name, open, left, top] of before) {
    if (now.has(name)) Object.assign(now.get(name), {open, scrollLeft: left, scrollTop: top});
  }
}

setInterval(async () => {
  const every = 1000 * document.body.dataset.refresh; // NaN: never
  if (asking || document.hidden || !(Date.now() - asked >= every)) return;
  if (busy()) return say("Does not refresh while you are busy here");
  asking = true;
  try {
    const answer = await fetch(location.href, {signal: AbortSignal.timeout(30000)});
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (page.getElementById("content") === null) throw new Error("a proxy says that the scheduler is away");
    if (!busy()) show(page);
  } catch {
    say("The scheduler does not answer; asks again");
  }
  asked = Date.now();
  asking = false;
}, 1000);
