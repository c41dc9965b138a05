// Short requests that only a broker can answer.

import { ApiProblem, get, post, type Schema } from '../api/client'
import { onEvent } from './live.svelte'

type Errand = Schema<'Errand'>
type Result = Schema<'ErrandResult'>
export type ResultOf<Kind extends Result['kind']> = Extract<Result, { kind: Kind }>

/** The way in which a broker reaches locations while a relationship is made or changed. */
export interface Access {
  group: string
  /** Options for stores. */
  arguments: string[]
  credentials: Schema<'CredentialView'>[]
  /** The relationship whose sealed credentials are meant. */
  relationship: number | null
}

const POLL_MS = 1_000

/** Asks a broker of a group, and waits for its answer. Nobody listens any more after `signal`. */
export async function ask<Kind extends Result['kind']>(
  { group, credentials, relationship }: Access,
  errand: Extract<Errand, { kind: Kind }>,
  signal: AbortSignal,
  onBroker?: (broker: string | undefined) => void,
): Promise<ResultOf<Kind>> {
  const { id } = await post('/api/v1/groups/{group}/errands', { path: { group }, body: { ...errand, credentials, relationship } })
  let wake: (() => void) | undefined
  const stop = onEvent('errand', (data) => {
    if ((data as { id?: number }).id === id) wake?.()
  })
  try {
    for (;;) {
      signal.throwIfAborted()
      const view = await get('/api/v1/errands/{id}', { path: { id } })
      if (view.state === 'done' && view.result) return view.result as ResultOf<Kind>
      if (view.state === 'failed' || view.state === 'done') throw new ApiProblem(0, view.error ?? {})
      onBroker?.(view.broker ?? undefined)
      await new Promise<void>((resolve) => {
        wake = resolve
        setTimeout(resolve, POLL_MS)
        signal.addEventListener('abort', () => resolve(), { once: true })
      })
    }
  } finally {
    stop()
  }
}
