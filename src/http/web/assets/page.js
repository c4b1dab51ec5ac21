// Times in the reader's own zone, with UTC on hover, and "copy" where a browser can. Without this
// script times stand in UTC and the text can be selected.
(function () {
  "use strict";
  var near = new Intl.DateTimeFormat(undefined, {
    day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
  });
  var zone = new Intl.DateTimeFormat(undefined, { timeZoneName: "long" });

  function localise(root) {
    root.querySelectorAll("time[datetime]:not([data-local])").forEach(function (time) {
      var at = new Date(time.getAttribute("datetime"));
      if (isNaN(at)) return;
      time.textContent = near.format(at);
      time.setAttribute("data-local", zone.resolvedOptions().timeZone);
    });
    root.querySelectorAll("button[data-copy]").forEach(function (button) {
      button.hidden = !navigator.clipboard;
    });
  }

  document.addEventListener("click", function (event) {
    var button = event.target.closest("button[data-copy]");
    if (!button) return;
    var source = document.getElementById(button.getAttribute("data-copy"));
    var said = button.textContent;
    navigator.clipboard.writeText(source.textContent).then(
      function () { button.textContent = "Copied"; },
      function () { button.textContent = "Select it and copy"; }
    ).then(function () {
      setTimeout(function () { button.textContent = said; }, 2000);
    });
  });

  // A hidden page keeps no stream: a browser opens six connections to one host, for all its tabs.
  document.addEventListener("visibilitychange", function () {
    var main = document.querySelector("main[sse-connect]");
    var live = document.getElementById("live");
    if (!main || !live || !window.htmx) return;
    if (document.visibilityState === "hidden") {
      htmx.trigger(main, "htmx:beforeCleanupElement");
    } else {
      htmx.trigger(main, "htmx:afterProcessNode");
      htmx.trigger(live, "htmx:afterProcessNode");
      htmx.trigger(live, "sse:changed");
    }
  });

  // Nothing moves below a finger or a selection: what is shown anew waits for the next tick.
  var pressed = false;
  ["pointerdown", "pointerup", "pointercancel"].forEach(function (name) {
    document.addEventListener(name, function () { pressed = name === "pointerdown"; }, true);
  });
  function busy() {
    var chosen = window.getSelection();
    var live = document.getElementById("live");
    return pressed || (!chosen.isCollapsed && live && live.contains(chosen.anchorNode));
  }
  document.addEventListener("htmx:beforeRequest", function (event) {
    if (event.detail.elt.id === "live" && busy()) event.preventDefault();
  });
  document.addEventListener("htmx:beforeSwap", function (event) {
    if (event.detail.target.id === "live" && busy()) event.detail.shouldSwap = false;
  });

  localise(document);
  document.addEventListener("htmx:load", function (event) {
    localise(event.detail.elt.parentNode || document);
  });
})();
