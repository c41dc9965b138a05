// Sizes, rates and times as people write them. Units of sizes are those of hakobu's own output: powers of ten.

import { language, t } from './language.svelte'

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB']

/** Returns three digits with a unit, as the command line does. */
export function bytes(value: number): string {
  let unit = 0
  let scaled = value
  while (scaled >= 999.5 && unit + 1 < UNITS.length) {
    scaled /= 1000
    unit += 1
  }
  if (unit === 0) return `${Math.round(scaled)} B`
  const digits = scaled >= 99.95 ? 0 : scaled >= 9.995 ? 1 : 2
  return `${scaled.toFixed(digits)} ${UNITS[unit]}`
}

export function rate(bytesPerSecond: number): string {
  return `${bytes(bytesPerSecond)}/s`
}

/** Returns a duration with its two largest units. */
export function duration(milliseconds: number): string {
  if (milliseconds > 0 && milliseconds < 1000) return t('time.seconds', { s: (milliseconds / 1000).toFixed(1) })
  const seconds = Math.max(0, Math.round(milliseconds / 1000))
  if (seconds < 60) return t('time.seconds', { s: seconds })
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return t('time.minutes', { m: minutes, s: seconds % 60 })
  const hours = Math.floor(minutes / 60)
  if (hours < 48) return t('time.hours', { h: hours, m: minutes % 60 })
  return t('time.days', { d: Math.floor(hours / 24), h: hours % 24 })
}

// The order of year, month and day is the one that nobody misreads.
const locales = { en: 'sv-SE', ja: 'ja-JP' }
const formats = new Map<string, Intl.DateTimeFormat>()

function format(style: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = language.current + JSON.stringify(style)
  let made = formats.get(key)
  if (made === undefined) {
    made = new Intl.DateTimeFormat(locales[language.current], style)
    formats.set(key, made)
  }
  return made
}

const DAY: Intl.DateTimeFormatOptions = { year: 'numeric', month: '2-digit', day: '2-digit' }
const CLOCK: Intl.DateTimeFormatOptions = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' }

/** Returns a moment in the browser's time zone. */
export function moment(milliseconds: number): string {
  return format({ ...DAY, ...CLOCK }).format(milliseconds)
}

export function clock(milliseconds: number): string {
  return format(CLOCK).format(milliseconds)
}

/** Returns a moment in another time zone, with its name. */
export function momentIn(milliseconds: number, timeZone: string): string {
  try {
    const day = new Intl.DateTimeFormat(language.current, { weekday: 'short', timeZone }).format(milliseconds)
    return `${format({ ...DAY, ...CLOCK, timeZone, timeZoneName: 'short' }).format(milliseconds)} (${day})`
  } catch {
    return `${moment(milliseconds)}`
  }
}

/** Returns the distance of a moment from now: "in 3 h 5 min", "2 min ago". */
export function distance(milliseconds: number, now: number): string {
  const words = duration(Math.abs(milliseconds - now))
  return milliseconds > now ? t('time.ahead', { duration: words }) : t('time.ago', { duration: words })
}

/** Reads a size or rate such as "200 MB" or "1.5GiB"; undefined if it is none. */
export function parseBytes(text: string): number | undefined {
  const found = /^\s*(\d+(?:\.\d+)?)\s*(?:([kmgtp])(i)?)?b?(?:\/s)?\s*$/i.exec(text)
  if (!found?.[1]) return undefined
  const power = found[2] ? 'kmgtp'.indexOf(found[2].toLowerCase()) + 1 : 0
  const value = Math.round(Number(found[1]) * (found[3] ? 1024 : 1000) ** power)
  return Number.isSafeInteger(value) ? value : undefined
}
