// Numbers as text, and colours.

const DIGITS = { maximumFractionDigits: 2 };

// A cost or a load: whole numbers as they are, others with at least four significant digits.
export function number(value) {
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const digits = Math.min(6, Math.max(0, 3 - Math.floor(Math.log10(Math.abs(value) || 1))));
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export function withUnit(value, unit) {
  if (unit === "m" && value >= 10_000) return `${number(value / 1000)} km`;
  return unit ? `${number(value)} ${unit}` : number(value);
}

export const percent = (value) => `${value.toLocaleString("en", { ...DIGITS, minimumFractionDigits: 2 })} %`;
export const seconds = (value) => `${value.toLocaleString("en", DIGITS)} s`;

// The value of a colour that style.css defines, which knows light and dark.
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

export const ROUTE_COLOURS = 7; // --route-0 to --route-6

// The colours of all routes, in the theme that is on.
export const routeColours = () => Array.from({ length: ROUTE_COLOURS }, (_, i) => colour(`route-${i}`));

// Calls back when the reader switches between light and dark.
export function onTheme(callback, signal) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", callback, { signal });
}
