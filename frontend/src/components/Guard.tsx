import { Component, type ComponentChildren } from "preact";
import { text } from "../text";

interface Props {
  /** Another value is a reason to try again. */
  token: unknown;
  children: ComponentChildren;
}

/** A fault of this code must cost the picture it is about, not the whole tab. */
export class Guard extends Component<Props, { failedOn: unknown; failed: boolean }> {
  override state = { failedOn: null as unknown, failed: false };

  override componentDidCatch(error: unknown): void {
    console.error(error);
    this.setState({ failed: true, failedOn: this.props.token });
  }

  override render({ token, children }: Props) {
    if (!this.state.failed || this.state.failedOn !== token) return children;
    return (
      <section class="empty short" data-testid="empty-state" data-kind="fault" role="alert">
        <h2>{text.fault.title}</h2>
        <p>{text.fault.what}</p>
      </section>
    );
  }
}
