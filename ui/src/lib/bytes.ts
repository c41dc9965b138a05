// Names and paths are bytes: a text, or an object if they are not UTF-8.

import type { Schema } from '../api/client'

export type ByteText = Schema<'ByteText'>

/** Returns the text to show. */
export function shownBytes(value: ByteText): string {
  return typeof value === 'string' ? value : (value.text ?? value.base64)
}

export function toBytes(value: ByteText): Uint8Array {
  if (typeof value === 'string') return new TextEncoder().encode(value)
  return Uint8Array.from(atob(value.base64), (character) => character.charCodeAt(0))
}

export function fromBytes(bytes: Uint8Array): ByteText {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return { base64: btoa(String.fromCharCode(...bytes)), text: new TextDecoder().decode(bytes) }
  }
}

/** Returns a location below another one. */
export function below(location: ByteText, name: ByteText): ByteText {
  const above = toBytes(location)
  const own = toBytes(name)
  const slash = above.length > 0 && above.at(-1) !== 0x2f && above.at(-1) !== 0x3a ? [0x2f] : []
  return fromBytes(Uint8Array.from([...above, ...slash, ...own]))
}

/** Returns the location above another one; undefined at a root, such as `/`, `host:` or `s3://bucket`. */
export function above(location: ByteText): ByteText | undefined {
  const bytes = toBytes(location)
  let end = bytes.length
  while (end > 0 && bytes[end - 1] === 0x2f) end -= 1
  let start = end
  while (start > 0 && bytes[start - 1] !== 0x2f) start -= 1
  const rest = bytes.slice(0, start)
  const isScheme = /^[a-z0-9]+:\/\/$/i.test(new TextDecoder().decode(rest))
  if (start === 0 || isScheme || end === 0) return undefined
  return fromBytes(rest)
}
