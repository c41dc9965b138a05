// The address behind the hash: `#/runs/5?kind=io`. It is the only place where the page keeps what it shows.

export interface Route {
  /** The parts of the path. */
  parts: string[]
  query: URLSearchParams
}

function read(): Route {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?', 2)
  const parts = path.split('/').filter((part) => part !== '')
  return { parts: parts.map(decoded), query: new URLSearchParams(query) }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

const state = $state<{ route: Route }>({ route: read() })
addEventListener('hashchange', () => (state.route = read()))

export const route = {
  get parts(): string[] {
    return state.route.parts
  },
  get query(): URLSearchParams {
    return state.route.query
  },
}

export function address(...parts: (string | number)[]): string {
  return '#/' + parts.map((part) => encodeURIComponent(part)).join('/')
}

export function go(to: string): void {
  location.hash = to
}

/** Changes the query without a further step in the history: filters are typed letter by letter. */
export function setQuery(values: Record<string, string | undefined>): void {
  const query = new URLSearchParams(state.route.query)
  for (const [key, value] of Object.entries(values)) {
    if (value === undefined || value === '') query.delete(key)
    else query.set(key, value)
  }
  const text = query.toString()
  const path = location.hash.split('?', 1)[0] || '#/'
  history.replaceState(null, '', path + (text === '' ? '' : `?${text}`))
  state.route = read()
}
