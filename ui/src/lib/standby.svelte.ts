// A control plane that does not lead, as it tells who asks.

import { asProblem } from '../api/client'
import { moment } from '../language/format'
import { t } from '../language/language.svelte'

interface Standby {
  leader: string | undefined
  /** Since when the ledger does not answer. */
  ledgerDownMs: number | undefined
}
const state = $state<{ seen: Standby | undefined }>({ seen: undefined })

/** The words for a control plane that waits, or none if it leads. */
export function standbyWords(): string | undefined {
  if (state.seen === undefined) return undefined
  const { leader, ledgerDownMs } = state.seen
  if (ledgerDownMs !== undefined) return t('trouble.ledger', { since: moment(ledgerDownMs) })
  return leader === undefined ? t('standby') : t('standby.leader', { name: leader })
}

/** Takes note that calls are answered. */
export function leads(): void {
  state.seen = undefined
}

/** Takes note of an error, and asks for the reason if it is that of a control plane that waits. */
export async function noteStandby(error: unknown): Promise<void> {
  if (!['standby', 'ledger_down'].includes(asProblem(error).kind)) {
    state.seen = undefined
    return
  }
  const answer: unknown = await fetch('/readyz', { cache: 'no-store' }).then((answer) => answer.json(), () => undefined)
  const health = typeof answer === 'object' && answer !== null ? (answer as Record<string, unknown>) : {}
  const { leader, ledger_down_since_ms: since } = health
  state.seen = { leader: typeof leader === 'string' ? leader : undefined, ledgerDownMs: typeof since === 'number' ? since : undefined }
}
