// Who is signed in, and what the role allows.

import { ApiProblem, type Schema, SESSION, get, post, remove, whenSignedOut } from '../api/client'
import { closeLive } from './live.svelte'

export type Session = Schema<'SessionView'>
type Role = Session['role']

const ROLES: Role[] = ['viewer', 'operator', 'admin']
const state = $state<{ session: Session | undefined; isKnown: boolean; hasEnded: boolean }>({ session: undefined, isKnown: false, hasEnded: false })

export const session = {
  get current(): Session | undefined {
    return state.session
  },
  /** False until the control plane has answered for the first time. */
  get isKnown(): boolean {
    return state.isKnown
  },
  /** True if it ended by itself. */
  get hasEnded(): boolean {
    return state.hasEnded
  },
  can(role: Role): boolean {
    return state.session !== undefined && ROLES.indexOf(state.session.role) >= ROLES.indexOf(role)
  },
}

function end(): void {
  if (state.session === undefined) return
  state.session = undefined
  state.hasEnded = true
  closeLive()
}
whenSignedOut(end)

/** Finds out who is signed in. */
export async function readSession(): Promise<void> {
  try {
    state.session = await get(SESSION)
  } catch (error) {
    if (!(error instanceof ApiProblem && error.status === 401)) throw error
    end()
  } finally {
    state.isKnown = true
  }
}

export async function signIn(token: string): Promise<void> {
  state.session = await post(SESSION, { body: { token } })
  state.hasEnded = false
}

export async function signOut(): Promise<void> {
  await remove(SESSION)
  state.session = undefined
  closeLive()
}
