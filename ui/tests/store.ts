// A store with a bucket, for tests of the page.

import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'

/** As `need_stores` of `scripts/lib.sh` installs it. */
const PROGRAM = join(process.env['HAKOBU_STORES'] ?? join(homedir(), '.cache/hakobu-test-stores'), 'versitygw-1.8.0/versitygw')

/** Starts versitygw with a bucket that has a directory `photos`. */
export async function bucket() {
  const folder = mkdtempSync(join(tmpdir(), 'hakobu-store-'))
  const data = join(folder, 'data')
  mkdirSync(join(data, 'bucket/photos'), { recursive: true })
  writeFileSync(join(data, 'bucket/photos/a.jpg'), 'content')
  const [accessKey, secretKey] = ['AKIAPAGETEST', 'k3Wq8Zt1Hn5Vy7Bc']
  const port = 12_000 + (process.pid % 6_000)
  const server = spawn(PROGRAM, ['--port', `127.0.0.1:${port}`, '--region', 'us-east-1', 'posix', data], {
    env: { ...process.env, ROOT_ACCESS_KEY: accessKey, ROOT_SECRET_KEY: secretKey }, cwd: folder, stdio: 'ignore',
  })
  const endpoint = `http://127.0.0.1:${port}`
  const stop = () => {
    server.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
  process.once('exit', stop)
  for (let attempt = 0; attempt < 200; attempt += 1) {
    const answers = await fetch(endpoint).then(() => true, () => false)
    if (answers) return { endpoint, accessKey, secretKey, stop }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  stop()
  throw new Error(`${PROGRAM} does not answer`)
}
