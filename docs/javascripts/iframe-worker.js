/* Browsers start no worker for a page that was opened as a file: there, search runs in a hidden frame. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.body.appendChild(document.createElement("iframe"));
      frame.hidden = true;
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.loaded = new Promise((resolve) => {
        const script = inside.document.createElement("script");
        script.onload = () => resolve(inside);
        script.src = url;
        inside.document.head.append(script);
      });
    }

    postMessage(data) {
      this.loaded.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
