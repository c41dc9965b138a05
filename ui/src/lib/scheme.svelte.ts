// Light and dark: as the system, or as chosen.

import { keep, kept } from './storage'

export type SchemeChoice = 'system' | 'light' | 'dark'
export const SCHEMES: SchemeChoice[] = ['system', 'light', 'dark']

const query = matchMedia('(prefers-color-scheme: dark)')
const first = SCHEMES.find((scheme) => scheme === kept('scheme')) ?? 'system'
const state = $state({ choice: first, systemIsDark: query.matches })
query.addEventListener('change', () => (state.systemIsDark = query.matches))

export const scheme = {
  get choice(): SchemeChoice {
    return state.choice
  },
  get isDark(): boolean {
    return state.choice === 'system' ? state.systemIsDark : state.choice === 'dark'
  },
  choose(choice: SchemeChoice): void {
    state.choice = choice
    keep('scheme', choice)
  },
}
