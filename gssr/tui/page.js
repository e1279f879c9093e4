"use strict";
// The socket is beside the page, whatever path a portal has put before both.
document.getElementById("terminal").dataset.sessionWebsocketUrl = new URL("ws", location.href).href.replace(/^http/, "ws");
document.getElementById("again").addEventListener("click", () => location.reload());
