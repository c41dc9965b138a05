// Starts a control plane of its own for the tests, and calls its API as a program does.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

const TARGET = resolve(import.meta.dirname, '../..', process.env['CARGO_TARGET_DIR'] ?? 'target', 'debug')
const PROGRAM = process.env['HAKOBU_PROGRAM'] ?? join(TARGET, 'hakobu')
const FILL = join(TARGET, 'examples/fill_ledger')
/** The number of failures of the first run. Without any, there is no such run. */
export const FAILURES = Number(process.env['HAKOBU_UI_FAILURES'] ?? 1_000_000)

export interface Plane {
  url: string
  /** The address that signs in once. */
  first: string
  folder: string
  token: string
}

/** Where a plane is described for all tests. */
const NOTE = 'HAKOBU_UI_PLANE'

export function plane(): Plane {
  return JSON.parse(readFileSync(process.env[NOTE] ?? '', 'utf8')) as Plane
}

export async function start(): Promise<() => void> {
  const base = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()
  const folder = process.env['HAKOBU_UI_FOLDER'] ?? mkdtempSync(join(base, 'hakobu-ui-'))
  mkdirSync(folder, { recursive: true })
  const data = join(folder, 'data')
  if (FAILURES > 0) execFileSync(FILL, [data, String(FAILURES)], { stdio: 'pipe' })
  // Below the ports of outgoing connections, as all ports of the tests: a page that connects again may take one of those.
  const server = launch(folder, 20_000 + (process.pid % 6_000))
  const stop = () => {
    server.kill('SIGTERM')
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    const first = await address(server)
    const url = new URL(first).origin
    const token = await firstToken(first)
    writeFileSync(join(folder, 'plane.json'), JSON.stringify({ url, first, folder, token: token.secret } satisfies Plane))
    process.env[NOTE] = join(folder, 'plane.json')
  } catch (error) {
    stop()
    throw error
  }
  return stop
}

/** Starts a control plane that keeps everything in a folder. */
export function launch(folder: string, port: number, more: string[] = []): ChildProcess {
  return spawn(PROGRAM, ['serve', '--data', join(folder, 'data'), '--listen', `127.0.0.1:${port}`, '--slots', '2', ...more], {
    env: { ...process.env, HAKOBU_STATE: join(folder, 'state'), HAKOBU_SETTINGS: 'none', LANG: 'C.UTF-8' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

/** Waits for the address that the control plane shows at its start. */
export function address(server: ChildProcess): Promise<string> {
  return new Promise((done, fail) => {
    let shown = ''
    const take = (chunk: Buffer) => {
      shown += String(chunk)
      const found = /https?:\/\/\S+token=\S+/.exec(shown)
      if (found) done(found[0])
    }
    server.stdout?.on('data', take)
    server.stderr?.on('data', take)
    server.once('error', fail)
    server.once('exit', (code) => fail(new Error(`the control plane ended with ${code}:\n${shown}`)))
    setTimeout(() => fail(new Error(`the control plane shows no address:\n${shown}`)), 60_000).unref()
  })
}

/** Signs in with the first token, as the page does, and makes a token for the tests. */
async function firstToken(first: string): Promise<{ secret: string }> {
  const url = new URL(first).origin
  const token = /token=([^&\s]+)/.exec(first)?.[1] ?? ''
  const headers = { 'Content-Type': 'application/json', 'X-Hakobu-Request': '1' }
  const session = await fetch(`${url}/api/v1/session`, { method: 'POST', headers, body: JSON.stringify({ token }) })
  if (!session.ok) throw new Error(`signing in: ${session.status} ${await session.text()}`)
  const cookie = session.headers.getSetCookie()[0]?.split(';')[0] ?? ''
  const made = await fetch(`${url}/api/v1/tokens`, { method: 'POST', headers: { ...headers, Cookie: cookie }, body: JSON.stringify({ label: 'tests', role: 'admin' }) })
  if (!made.ok) throw new Error(`making a token: ${made.status} ${await made.text()}`)
  return (await made.json()) as { secret: string }
}

/** Calls the API with the token of the tests. */
export async function api<T>(method: string, path: string, body?: unknown): Promise<T> {
  const { url, token } = plane()
  const headers: Record<string, string> = { Authorization: `Bearer ${token}` }
  if (body !== undefined) headers['Content-Type'] = 'application/json'
  const init: RequestInit = { method, headers }
  if (body !== undefined) init.body = JSON.stringify(body)
  const response = await fetch(url + path, init)
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
  return (text === '' ? undefined : JSON.parse(text)) as T
}

/** Makes a token with a role. */
export async function tokenOf(role: string): Promise<string> {
  return (await api<{ secret: string }>('POST', '/api/v1/tokens', { label: `a ${role}`, role })).secret
}
