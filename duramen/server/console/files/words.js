// Numbers as people read them. Pure. What is not known is said to be so, and is never a zero.

export const UNKNOWN = "not known";

const counted = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function count(value) {
  return value === null || value === undefined ? UNKNOWN : counted.format(value);
}

// The same for a narrow column: a million and more as 1.23M.
export function brief(value) {
  return value === null || value === undefined || Math.abs(value) < 1e6 ? count(value) : compact.format(value);
}

// A rate: whole numbers, but for slow ones, which would else look like none.
export function rate(value) {
  if (value === null || value === undefined) return UNKNOWN;
  return value !== 0 && Math.abs(value) < 10 ? value.toFixed(1) : brief(value);
}

export function perSecond(value) {
  return value === null || value === undefined ? UNKNOWN : `${rate(value)} /s`;
}

export function size(bytes) {
  if (bytes === null || bytes === undefined) return UNKNOWN;
  let unit = 0;
  while (bytes >= 1024 && unit < UNITS.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return `${bytes >= 100 || unit === 0 ? Math.round(bytes) : bytes.toFixed(1)} ${UNITS[unit]}`;
}

// Seconds, in the largest two units that say something.
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return UNKNOWN;
  if (seconds < 0.001) return seconds > 0 ? "< 1 ms" : "0 s";
  if (seconds < 1) return `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 100) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (seconds < 2 * 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${(seconds / 86400).toFixed(1)} days`;
}

export function clock(ms) {
  return new Date(ms).toLocaleTimeString("en-GB");
}

export function date(ms) {
  return new Date(ms).toLocaleString("en-GB", { weekday: "short", hour: "2-digit", minute: "2-digit" });
}

export function plural(number, word) {
  return `${counted.format(number)} ${word}${number === 1 ? "" : "s"}`;
}
