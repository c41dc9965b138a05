// Starts by schedule that wait or were left out, in words.

import type { Schema } from '../api/client'
import { moment } from '../language/format'
import { t } from '../language/language.svelte'

export function delayWords(delay: Schema<'StartDelayView'>): string {
  const state = delay.is_left_out ? 'left_out' : 'waits'
  const words = t(`delay.${state}.${delay.kind}`, { planned: moment(delay.planned_ms), run: String(delay.run ?? '') })
  return delay.kind === 'refused' ? `${words} ${delay.message}` : words
}
