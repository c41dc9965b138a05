// A schedule in the words of the control plane.

import type { Schema } from '../api/client'

export function scheduleWords(item: Pick<Schema<'RelationshipSummary'>, 'schedule_words'>): string {
  return item.schedule_words ?? '–'
}
