// Short ways to make and find elements. Text is always set as text, so that names from files are never HTML.

export const byId = (id) => document.getElementById(id);

export function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}

// Copies text, and says so on the button for a moment.
export async function copy(text, button) {
  const label = button.textContent;
  await navigator.clipboard.writeText(text);
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = label), 1500);
}
