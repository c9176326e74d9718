/**
 * The tab as a guest of TensorBoard's page: a MessageChannel whose other end the host keeps.
 * Opened on its own (no host answers) the tab works the same, it only hears of no reload.
 */
export function listenToHost(onReload: () => void): void {
  if (window.parent === window) return;
  const channel = new MessageChannel();
  channel.port1.onmessage = (event: MessageEvent) => {
    const message = parse(event.data);
    if (!message || message.isReply) return;
    if (message.type === "experimental.DataReloaded") onReload();
    // The host waits for an answer to every message, also to those of a kind not known here.
    channel.port1.postMessage(
      JSON.stringify({ type: message.type, id: message.id, payload: null, error: null, isReply: true }),
    );
  };
  window.parent.postMessage("experimental.bootstrap", "*", [channel.port2]);
}

interface HostMessage {
  type: string;
  id: unknown;
  isReply: boolean;
}

function parse(raw: unknown): HostMessage | null {
  try {
    const message: unknown = JSON.parse(String(raw));
    return typeof message === "object" && message !== null && "type" in message
      ? (message as HostMessage)
      : null;
  } catch {
    return null;
  }
}
