// The present moment, once a second, for everything that says "ago" or "left".

const state = $state({ now: Date.now() })
setInterval(() => (state.now = Date.now()), 1000)

export function now(): number {
  return state.now
}
