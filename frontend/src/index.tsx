import { render as mount } from "preact";
import { Address } from "./address";
import { createApi, routesBase } from "./api";
import { App } from "./components/App";
import { listenToHost } from "./host";
import { preferredLanguage } from "./language";
import { Session } from "./session";
import sheet from "./styles/index.css?inline";
import { watchHostTheme } from "./theme";

/** TensorBoard's page imports this module into an empty frame and calls this. */
export function render(): void {
  // Through a variable, or the bundler takes the relative URL for a file of its own.
  const here = import.meta.url;
  const style = document.createElement("style");
  style.textContent = sheet;
  document.head.append(style);
  const root = document.createElement("div");
  root.id = "training-health";
  document.body.append(root);

  const address = new Address();
  const api = createApi(routesBase(here), undefined, () => session.state.view.given);
  const session: Session = new Session(api, address);
  session.speak(preferredLanguage());
  watchHostTheme((hostTheme) => session.patch({ hostTheme }));
  listenToHost(() => void session.reload("grown"));
  address.onChange(() => session.takeAddress());
  mount(<App session={session} />, root);
  session.start();
  // So that keys work before the first click; in a notebook the focus is not the tab's to take.
  if (window.parent === window.top) window.focus();
}
