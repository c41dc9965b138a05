// Limits in one line.

import type { Schema } from '../api/client'
import { rate } from '../language/format'
import { t } from '../language/language.svelte'

/** Returns limits in words; nothing if there are none. */
export function limitsWords(limits: Schema<'LimitsSetting'>): string {
  const words: string[] = []
  if (limits.paused) words.push(t('state.paused'))
  if (limits.bytes_per_second) words.push(rate(limits.bytes_per_second))
  if (limits.operations_per_second) words.push(t('limits.some_operations', { count: limits.operations_per_second }))
  if (limits.source_p99_ms) words.push(t('limits.some_p99', { ms: String(limits.source_p99_ms) }))
  if (limits.brokers) words.push(t('limits.some_brokers', { count: limits.brokers }))
  return words.join(', ')
}
