// The search runs in a worker, and browsers start none for a page that was opened from a disk.
// There it gets a hidden frame instead, which has the same events. The theme would load such a script from the web.
if (location.protocol === "file:") {
  class IFrameWorker extends EventTarget {
    #frame = document.createElement("iframe");
    #waiting = []; // messages until the frame has loaded the worker's script

    constructor(url) {
      super();
      this.#frame.hidden = true;
      this.#frame.srcdoc = `<!doctype html>
        <script>self.postMessage = (data) => self.answer(data);</script>
        <script src="${new URL(url, location)}"></script>`;
      this.#frame.addEventListener("load", () => {
        this.#frame.contentWindow.answer = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        const waiting = this.#waiting;
        this.#waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      });
      document.body.append(this.#frame);
    }

    postMessage(data) {
      if (this.#waiting) this.#waiting.push(data);
      else this.#frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.#frame.remove();
    }
  }
  self.IFrameWorker = self.Worker = IFrameWorker;
}
