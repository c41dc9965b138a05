// Relationships, trees and runs for the tests.

import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { api, plane } from './server'

export interface Made {
  id: number
  source: string
  target: string
}

/** Makes a tree of files in a folder of the plane. */
export function tree(name: string, files: number, bytes = 100): string {
  const root = join(plane().folder, name)
  for (let index = 0; index < files; index += 1) {
    const folder = join(root, `d${Math.floor(index / 100)}`)
    if (index % 100 === 0) mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, `f${index}`), Buffer.alloc(bytes, index % 251))
  }
  return root
}

/** Directories in the target at places where the source has files: a copy does not replace them, so these files fail. */
export function blocked(source: string, target: string, count: number): string[] {
  const paths: string[] = []
  for (let index = 0; index < count; index += 1) {
    const path = join(target, `d${Math.floor(index / 100)}`, `f${index}`)
    mkdirSync(join(path, 'in the way'), { recursive: true })
    paths.push(path)
  }
  return paths
}

/** Makes a directory such that nobody creates anything in it, until the returned function is called. */
export function closed(folder: string): () => void {
  const isRoot = process.getuid?.() === 0
  const set = (on: boolean) => (isRoot ? execFileSync('chattr', [on ? '+i' : '-i', folder]) : chmodSync(folder, on ? 0o555 : 0o755))
  set(true)
  return () => set(false)
}

export async function relationship(name: string, source: string, target: string, more: object = {}): Promise<Made> {
  const request = { verb: 'copy', sources: [`${source}/`], target, arguments: [] as string[] }
  const made = await api<{ id: number }>('POST', '/api/v1/relationships', { name, group: 'local', request, ...more })
  return { id: made.id, source, target }
}

export async function startRun(relationship: number): Promise<number> {
  return (await api<{ run: number }>('POST', `/api/v1/relationships/${relationship}/runs`)).run
}

interface RunState {
  state: string
  failures: number
}

/** Waits for the end of a run. */
export async function ended(run: number): Promise<RunState> {
  for (let tries = 0; tries < 600; tries += 1) {
    const view = await api<RunState>('GET', `/api/v1/runs/${run}`)
    if (!['running', 'paused'].includes(view.state)) return view
    await new Promise((done) => setTimeout(done, 100))
  }
  throw new Error(`run ${run} does not end`)
}

let made = 0
/** Returns a name that no other test has. */
export function fresh(name: string): string {
  made += 1
  return `${name} ${Date.now().toString(36)}${made}`
}
