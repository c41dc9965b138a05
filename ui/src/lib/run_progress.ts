// The figures of a run that several pages show.

import type { Schema } from '../api/client'
import { duration } from '../language/format'
import { named, t } from '../language/language.svelte'

export type RunView = Schema<'RunView'>

export function isOpen(run: RunView): boolean {
  return run.ended_ms === undefined || run.ended_ms === null
}

/** The share that is done, from 0 to 1; undefined if nothing is known about the whole. */
export function share(run: RunView): number | undefined {
  if (!isOpen(run)) return 1
  return run.progress?.forecast?.done
}

export function entriesDone(run: RunView): number {
  return run.figures.entries_done
}

export function bytesDone(run: RunView): number {
  return run.figures.bytes_done
}

/** Returns what a run waits for in words; nothing if it goes on. */
export function waitingWords(run: RunView, now: number): string {
  const wait = run.waiting_for
  if (!wait) return ''
  const left = wait.until_ms ? duration(Math.max(0, wait.until_ms - now)) : ''
  return t(`wait.${wait.kind}`, { group: run.group, brokers: wait.brokers.join(', '), duration: left })
}

export function elapsed(run: RunView, now: number): string {
  return duration((run.ended_ms ?? now) - run.started_ms)
}

/** Returns the bottleneck in words. A share behind the stage stays as it is. */
export function limitedBy(words: string): string {
  const found = /^(.*?)( \d+ %)?$/.exec(words)
  const stage = found?.[1] ?? words
  const key = stage.replaceAll(' ', '_').replaceAll("'", '')
  const name = named('limit', key)
  return (name === key ? stage : name) + (found?.[2] ?? '')
}
