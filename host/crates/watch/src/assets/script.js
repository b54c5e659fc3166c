// The page is complete without this script. The script follows the stream of events, writes milestones at once, and fetches
// the page again to replace the regions that have changed. It writes no HTML of its own.
"use strict";
(() => {
  const start = document.body.dataset.cursor;
  if (!start || !window.EventSource) return;
  const task = document.body.dataset.task || "";
  const live = document.getElementById("live");
  const log = document.getElementById("milestones");
  const MAX_LINES = 100; // lines of the list of milestones
  const PAUSE = 500; // ms from an event to the replacement of regions, so that a busy task does not keep the browser busy
  let source = null, cursor = start, timer = 0, running = false, again = false, gone = false;

  const say = (text) => { if (live && live.textContent !== text) live.textContent = text; };

  const milestone = (event) => {
    if (!log) return;
    const texts = {
      milestone: () => event.text,
      verify_finished: () => "Verification: " + event.status + (event.reason ? ", " + event.reason : ""),
      task_finished: () => "Ended: " + event.state + (event.reason ? ", " + event.reason : ""),
    };
    const text = texts[event.type];
    if (!text) return;
    const item = document.createElement("p");
    item.className = "fresh";
    item.dataset.seq = event.seq;
    const time = document.createElement("time");
    time.dateTime = event.time;
    time.className = "soft small";
    time.textContent = String(event.time).slice(11, 19) + " ";
    item.append(time, (task ? "" : event.task_id + " ") + String(text()));
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    log.append(item);
    while (log.children.length > MAX_LINES) log.firstElementChild.remove();
    if (atEnd) log.scrollTop = log.scrollHeight;
  };

  // Replaces each region whose content has changed; focus, open details and the place in a list stay.
  const replace = (fresh) => {
    for (const old of document.querySelectorAll("[data-live]")) {
      const now = fresh.getElementById(old.id);
      if (!now || now.innerHTML === old.innerHTML) continue;
      const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
      const open = new Set([...old.querySelectorAll("details[open][id]")].map((one) => one.id));
      const places = new Map([...old.querySelectorAll("pre[id]")].map((one) => [one.id, one.scrollTop]));
      // A selection would be lost, so the region waits until nothing is selected in it.
      const selection = document.getSelection();
      if (selection && !selection.isCollapsed && old.contains(selection.anchorNode)) continue;
      old.replaceChildren(...document.importNode(now, true).childNodes);
      for (const id of open) { const one = document.getElementById(id); if (one) one.open = true; }
      for (const [id, place] of places) { const one = document.getElementById(id); if (one) one.scrollTop = place; }
      if (focused) { const one = document.getElementById(focused); if (one) one.focus({ preventScroll: true }); }
    }
    if (fresh.title) document.title = fresh.title;
  };

  const refresh = async () => {
    timer = 0;
    if (running) { again = true; return; }
    running = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", headers: { accept: "text/html" } });
      if (answer.ok && !gone) replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch { /* the stream says that the server is away */ }
    running = false;
    if (again) { again = false; later(); }
  };
  const later = () => { if (!timer) timer = setTimeout(refresh, PAUSE); };

  const open = () => {
    if (source || document.hidden) return;
    source = new EventSource("/api/events?after=" + encodeURIComponent(cursor));
    source.onopen = () => say("Live");
    source.onerror = () => {
      if (source && source.readyState === EventSource.CLOSED) { source = null; say("Not live: the server refused. Reload the page."); }
      else say("Not live: waiting for act watch to come back");
    };
    source.onmessage = (message) => {
      cursor = message.lastEventId;
      let event;
      try { event = JSON.parse(message.data); } catch { return; }
      if (task && event.task_id !== task) return;
      milestone(event);
      later();
    };
    source.addEventListener("here", (message) => { cursor = message.lastEventId; });
    source.addEventListener("gap", (message) => {
      cursor = message.lastEventId;
      let gap;
      try { gap = JSON.parse(message.data); } catch { return; }
      if (task && gap.task_id !== task) return;
      if (gap.why === "gone" && task) {
        // The journal is gone, so the shown text is its last copy and is not replaced any more.
        gone = true;
        const note = document.getElementById("gone");
        if (note) note.hidden = false;
      } else later();
    });
    source.addEventListener("parked", () => {
      close();
      say("Not live: other pages of act watch are open. Focus this one to follow it again.");
    });
  };
  const close = () => { if (source) source.close(); source = null; };

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { close(); say("Paused while hidden"); } else { open(); later(); }
  });
  window.addEventListener("focus", () => { if (!source) { open(); later(); } });
  window.addEventListener("pagehide", close);

  // Ages and the pieces of a log that grows.
  const ages = () => {
    for (const one of document.querySelectorAll("time[data-age]")) {
      const seconds = Math.max(0, Math.round((Date.now() - Date.parse(one.dateTime)) / 1000));
      const [count, unit] = seconds < 60 ? [seconds, "s"] : seconds < 3600 ? [Math.floor(seconds / 60), "min"]
        : seconds < 172800 ? [Math.floor(seconds / 3600), "h"] : [Math.floor(seconds / 86400), "days"];
      const text = count + " " + unit;
      if (one.textContent !== text) one.textContent = text;
    }
  };
  setInterval(() => { if (!document.hidden) ages(); }, 5000);

  const followed = document.querySelector("pre[data-follow]");
  if (followed) {
    let place = Number(followed.dataset.to);
    const address = followed.dataset.follow;
    const MAX_TEXT = 2 << 20; // characters on the page; older ones leave it
    const more = async () => {
      let pause = 1000;
      if (!document.hidden) {
        try {
          const answer = await fetch(address + "from=" + place, { credentials: "same-origin" });
          if (!answer.ok) return;
          const piece = await answer.json();
          if (piece.to > place) {
            const atEnd = followed.scrollHeight - followed.scrollTop - followed.clientHeight < 40;
            followed.append(piece.log);
            place = piece.to;
            followed.normalize();
            const text = followed.textContent;
            if (text.length > MAX_TEXT) followed.textContent = text.slice(-MAX_TEXT / 2);
            if (atEnd) followed.scrollTop = followed.scrollHeight;
            pause = piece.to < piece.end ? 0 : 300;
          }
        } catch { pause = 3000; }
      }
      setTimeout(more, pause);
    };
    followed.scrollTop = followed.scrollHeight;
    setTimeout(more, 500);
  }

  if (log) log.scrollTop = log.scrollHeight;
  open();
})();
