// The languages of the page. A text may have values, `{name}`, and forms for one and for more, `{count:run|runs}`.

import { keep, kept } from '../lib/storage'
import { en } from './en'
import { ja } from './ja'

export type TextKey = keyof typeof en
export type Language = 'en' | 'ja'
export const LANGUAGES: Record<Language, string> = { en: 'English', ja: '日本語' }

const texts: Record<Language, Record<TextKey, string>> = { en, ja }

function preferred(): Language {
  const chosen = kept('language')
  if (chosen === 'en' || chosen === 'ja') return chosen
  const first = navigator.languages.find((tag) => /^(en|ja)\b/.test(tag))
  return first?.startsWith('ja') ? 'ja' : 'en'
}

const state = $state<{ language: Language }>({ language: preferred() })

export const language = {
  get current(): Language {
    return state.language
  },
  choose(chosen: Language): void {
    state.language = chosen
    keep('language', chosen)
  },
}

export type TextValues = Record<string, string | number>

/** Returns the text of a key in the chosen language. */
export function t(key: TextKey, values: TextValues = {}): string {
  return texts[state.language][key].replace(/\{(\w+)(?::([^|}]*)\|([^}]*))?\}/g, (whole, name: string, one, more) => {
    const value = values[name]
    if (value === undefined) return whole
    if (one === undefined) return typeof value === 'number' ? count(value) : value
    return value === 1 ? one : more
  })
}

/** Returns the text of a key that is put together from a word of the interface, or the word if there is none. */
export function named(prefix: string, word: string): string {
  const key = `${prefix}.${word}`
  return key in en ? t(key as TextKey) : word
}

const counts = { en: new Intl.NumberFormat('en'), ja: new Intl.NumberFormat('ja') }

/** Returns a number of things as people write it. */
export function count(value: number): string {
  return counts[state.language].format(value)
}
