import type { Attachment } from "svelte/attachments";

/** Lets what is wider than its place be scrolled by keyboard, as a region named by its caption or heading. */
export const scrolls: Attachment<HTMLElement> = (node) => {
  const name = () =>
    (node.querySelector("caption") ?? node.closest("section, dialog")?.querySelector("h2") ?? document.querySelector("h1"))?.textContent?.trim() || "Table";
  const apply = () => {
    if (node.scrollWidth > node.clientWidth) {
      node.tabIndex = 0;
      node.role = "region";
      node.ariaLabel = `${name()}, table`;
    } else {
      node.removeAttribute("tabindex");
      node.removeAttribute("role");
      node.removeAttribute("aria-label");
    }
  };
  const watch = new ResizeObserver(apply);
  watch.observe(node);
  for (const child of node.children) watch.observe(child);
  return () => watch.disconnect();
};
