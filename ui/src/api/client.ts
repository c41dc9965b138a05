// Calls of the interface, with the types of its document.

import type { components, paths } from './schema'

export type Schema<Name extends keyof components['schemas']> = components['schemas'][Name]
type Problem = Schema<'Problem'>

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'
type PathsOf<M extends Method> = { [P in keyof paths]: paths[P] extends Record<M, infer O> ? (O extends undefined ? never : P) : never }[keyof paths]
type Operation<P extends keyof paths, M extends Method> = paths[P] extends Record<M, infer O> ? NonNullable<O> : never
type PathValues<O> = O extends { parameters: { path: infer V } } ? { path: V } : { path?: undefined }
type QueryValues<O> = O extends { parameters: { query?: infer V } } ? { query?: V } : { query?: undefined }
/** The query of a call that reads. */
export type QueryOf<P extends PathsOf<'get'>> = NonNullable<QueryValues<Operation<P, 'get'>>['query']>
type BodyValue<O> = O extends { requestBody: { content: { 'application/json': infer B } } }
  ? { body: B }
  : O extends { requestBody?: { content: { 'application/json': infer B } } }
    ? { body?: B }
    : { body?: undefined }
type JsonOf<R> = R extends { content: { 'application/json': infer J } } ? J : undefined
type Answer<O> = O extends { responses: infer R } ? { [S in keyof R & (200 | 201 | 202)]: JsonOf<R[S]> }[keyof R & (200 | 201 | 202)] : undefined
type CallOptions<O> = PathValues<O> & QueryValues<O> & BodyValue<O>
type Arguments<O> = Partial<Record<never, never>> extends CallOptions<O> ? [options?: CallOptions<O>] : [options: CallOptions<O>]

/** An error of a call, in the words of the control plane. */
export class ApiProblem extends Error {
  readonly status: number
  readonly kind: string
  readonly words: string
  readonly hint: string | undefined
  readonly field: string | undefined

  constructor(status: number, problem: Partial<Problem>) {
    super(problem.message ?? '')
    this.status = status
    this.kind = problem.kind ?? 'other'
    this.words = wordsOf(problem)
    this.hint = problem.hint ?? undefined
    this.field = problem.field ?? undefined
  }
}

/** Returns the message without the remedy, which may stand at its end as well. */
export function wordsOf(problem: Partial<Problem>): string {
  const { message = '', hint } = problem
  return hint && message.endsWith(hint) ? message.slice(0, -hint.length).replace(/[;:,]\s*$/, '') : message
}

/** The words for errors that no answer has. */
const words = { unreachable: () => '', unexpected: (_status: number) => '' }
export function setWords(unreachable: () => string, unexpected: (status: number) => string): void {
  words.unreachable = unreachable
  words.unexpected = unexpected
}

export function asProblem(error: unknown): ApiProblem {
  if (error instanceof ApiProblem) return error
  return new ApiProblem(0, { kind: 'other', message: error instanceof Error ? error.message : String(error) })
}

const signedOut = new Set<() => void>()
/** Has a function called whenever a call is refused because nobody is signed in. */
export function whenSignedOut(act: () => void): () => void {
  signedOut.add(act)
  return () => signedOut.delete(act)
}

/** The header that shows that a change comes from a page of this origin. */
const OWN_ORIGIN = { 'X-Hakobu-Request': '1' }

interface LooseOptions {
  path?: Record<string, string | number> | undefined
  query?: Record<string, unknown> | undefined
  body?: unknown
}

export function urlOf(path: string, options: LooseOptions = {}): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(options.path?.[name] ?? '')))
  const query = new URLSearchParams()
  for (const [key, value] of Object.entries(options.query ?? {})) {
    if (value !== undefined && value !== null && value !== '') query.set(key, String(value))
  }
  const text = query.toString()
  return text === '' ? filled : `${filled}?${text}`
}

async function call(method: Method, path: string, options: LooseOptions = {}): Promise<unknown> {
  const headers: Record<string, string> = { Accept: 'application/json' }
  const init: RequestInit = { method: method.toUpperCase(), headers, credentials: 'same-origin', cache: 'no-store' }
  if (method !== 'get') Object.assign(headers, OWN_ORIGIN)
  if (options.body !== undefined) {
    headers['Content-Type'] = 'application/json'
    init.body = JSON.stringify(options.body)
  }
  let response: Response
  try {
    response = await fetch(urlOf(path, options), init)
  } catch {
    throw new ApiProblem(0, { kind: 'unreachable', message: words.unreachable() })
  }
  const isJson = response.headers.get('Content-Type')?.includes('json') ?? false
  const answer: unknown = isJson ? await response.json().catch(() => undefined) : undefined
  if (response.ok) return answer
  const problem = new ApiProblem(response.status, (answer as Partial<Problem> | undefined) ?? { message: words.unexpected(response.status) })
  if (response.status === 401 && path !== SESSION) signedOut.forEach((act) => act())
  throw problem
}

export const SESSION = '/api/v1/session'

export function get<P extends PathsOf<'get'>>(path: P, ...[options]: Arguments<Operation<P, 'get'>>): Promise<Answer<Operation<P, 'get'>>> {
  return call('get', path, options as LooseOptions) as Promise<Answer<Operation<P, 'get'>>>
}
export function post<P extends PathsOf<'post'>>(path: P, ...[options]: Arguments<Operation<P, 'post'>>): Promise<Answer<Operation<P, 'post'>>> {
  return call('post', path, options as LooseOptions) as Promise<Answer<Operation<P, 'post'>>>
}
export function put<P extends PathsOf<'put'>>(path: P, ...[options]: Arguments<Operation<P, 'put'>>): Promise<Answer<Operation<P, 'put'>>> {
  return call('put', path, options as LooseOptions) as Promise<Answer<Operation<P, 'put'>>>
}
export function remove<P extends PathsOf<'delete'>>(path: P, ...[options]: Arguments<Operation<P, 'delete'>>): Promise<Answer<Operation<P, 'delete'>>> {
  return call('delete', path, options as LooseOptions) as Promise<Answer<Operation<P, 'delete'>>>
}
