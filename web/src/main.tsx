import { render } from "preact";
import "../../amends/report/style.css";
import "./page.css";
import { App } from "./app";
import { listen } from "./keys";
import { page } from "./store";

const root = document.getElementById("page");
if (root) {
  root.textContent = "";
  render(<App />, root);
  listen();
  void page.open();
}
