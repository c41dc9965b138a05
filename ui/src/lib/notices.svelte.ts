// Short messages: results of what the user did. A live region reads them out.

import { SvelteMap } from 'svelte/reactivity'

export interface Notice {
  words: string
  kind: 'good' | 'bad'
}

const SHOWN_MS = 6_000
const notices = new SvelteMap<number, Notice>()
let last = 0

export function notify(words: string, kind: Notice['kind'] = 'good'): void {
  const id = ++last
  notices.set(id, { words, kind })
  setTimeout(() => notices.delete(id), SHOWN_MS)
}

export function dismiss(id: number): void {
  notices.delete(id)
}

export { notices }
