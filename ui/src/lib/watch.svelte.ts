// One thing that is read from the control plane, and again when an event tells that it has changed.

import { onDestroy } from 'svelte'
import { asProblem, type ApiProblem } from '../api/client'
import { atMostEvery, onEvent, onReopened } from './live.svelte'

export class Watched<T> {
  value = $state.raw<T | undefined>()
  problem = $state.raw<ApiProblem | undefined>()
  private readonly read: () => Promise<T>
  private isEnded = false

  /** To be made while a component is. `events`: names, and the test that an event is about this. */
  constructor(read: () => Promise<T>, events: Record<string, (data: unknown) => boolean> = {}, every = 1_000) {
    this.read = read
    const again = atMostEvery(every, () => void this.renew())
    const stops = Object.entries(events).map(([name, isAbout]) =>
      onEvent(name, (data) => {
        if (isAbout(data)) again()
      }),
    )
    stops.push(onReopened(again), onEvent('reset', again))
    onDestroy(() => {
      this.isEnded = true
      stops.forEach((stop) => stop())
    })
    void this.renew()
  }

  async renew(): Promise<void> {
    // A timer may fire after the page is gone, and the address is another one's then.
    if (this.isEnded) return
    try {
      const value = await this.read()
      if (this.isEnded) return
      this.value = value
      this.problem = undefined
    } catch (error) {
      if (!this.isEnded) this.problem = asProblem(error)
    }
  }
}

/** Returns the test that an event is about something with this value of a field. */
export function about(field: string, value: unknown): (data: unknown) => boolean {
  return (data) => typeof data === 'object' && data !== null && (data as Record<string, unknown>)[field] === value
}

export const always = (): boolean => true
