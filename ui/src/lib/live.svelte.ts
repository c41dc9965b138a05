// One stream of events for the whole page: a browser opens few connections to one origin.

type Take = (data: unknown) => void

const takers = new Map<string, Set<Take>>()
let source: EventSource | undefined
let opened = 0
const state = $state({ isConnected: false, isOpen: false })

/** How the page hears about changes: shown while it does not. */
export const live = {
  get isConnected(): boolean {
    return state.isConnected
  },
  get isOpen(): boolean {
    return state.isOpen
  },
}

const dispatch = (event: MessageEvent<string>) => {
  const set = takers.get(event.type)
  if (set === undefined) return
  let data: unknown
  try {
    data = JSON.parse(event.data)
  } catch {
    return
  }
  set.forEach((take) => take(data))
}

const REOPENED = 'reopened'

export function openLive(url: string, names: string[], whenRefused: () => void): void {
  closeLive()
  state.isOpen = true
  const stream = new EventSource(url)
  source = stream
  stream.onopen = () => {
    state.isConnected = true
    opened += 1
    // Events were missed meanwhile.
    if (opened > 1) takers.get(REOPENED)?.forEach((take) => take(undefined))
  }
  stream.onerror = () => {
    state.isConnected = false
    if (stream.readyState === EventSource.CLOSED && source === stream) {
      // The browser connects again by itself unless the answer was an error.
      whenRefused()
      setTimeout(() => {
        if (source === stream) openLive(url, names, whenRefused)
      }, 5_000)
    }
  }
  for (const name of names) stream.addEventListener(name, dispatch as EventListener)
}

export function closeLive(): void {
  source?.close()
  source = undefined
  state.isConnected = false
  state.isOpen = false
}

/** Has a function called for each event of a name, until the returned function is called. */
export function onEvent(name: string, take: Take): () => void {
  let set = takers.get(name)
  if (set === undefined) {
    set = new Set()
    takers.set(name, set)
  }
  set.add(take)
  return () => set.delete(take)
}

/** Has a function called after events may have been missed. */
export function onReopened(act: () => void): () => void {
  return onEvent(REOPENED, act)
}

/** Returns a function that acts at most once within a time, and once more at its end if it was called meanwhile. */
export function atMostEvery(milliseconds: number, act: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined
  let isDue = false
  const run = () => {
    act()
    timer = setTimeout(() => {
      timer = undefined
      if (isDue) {
        isDue = false
        run()
      }
    }, milliseconds)
  }
  return () => {
    if (timer === undefined) run()
    else isDue = true
  }
}
