import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { accessible, expect, goTo, test } from './page'
import { address, launch, plane } from './server'

/** Leaves no space in a folder. */
function fill(folder: string): void {
  try {
    execFileSync('dd', ['if=/dev/zero', `of=${join(folder, 'filler')}`, 'bs=4k'], { stdio: 'ignore' })
  } catch {
    // It ends with the space.
  }
}

test('a full disk under the ledger is told on each page until there is space', async ({ browser }) => {
  test.setTimeout(120_000)
  const folder = mkdtempSync(join(plane().folder, 'full-'))
  const data = join(folder, 'data')
  mkdirSync(data)
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'mode=700,size=4m', 'none', data])
  const server = launch(folder, 18_000 + (process.pid % 2_000))
  try {
    const context = await browser.newContext({ locale: 'en-GB' })
    const page = await context.newPage()
    await page.goto(await address(server))
    await expect(page.getByRole('heading', { name: 'Relationships', level: 1 })).toBeVisible()
    const trouble = page.getByTestId('trouble')
    await expect(trouble).toHaveCount(0)
    fill(data)
    // A broker is noted every ten seconds.
    await expect(trouble).toContainText('The ledger does not work since', { timeout: 30_000 })
    await expect(trouble).toContainText('database or disk is full')
    await expect(trouble).toContainText('Make space in the file system of the ledger.')
    await goTo(page, 'brokers')
    await expect(page.getByRole('heading', { name: 'Brokers', level: 1 })).toBeVisible()
    await expect(trouble).toBeVisible()
    await accessible(page, 'a full disk')
    await page.getByLabel('Language').selectOption('ja')
    await expect(trouble).toContainText('台帳があるファイルシステムに空きを作ってください')
    rmSync(join(data, 'filler'))
    await expect(trouble).toHaveCount(0, { timeout: 30_000 })
    await context.close()
  } finally {
    const ended = new Promise((done) => server.once('exit', done))
    server.kill('SIGKILL')
    await ended
    execFileSync('umount', ['-l', data])
    rmSync(folder, { recursive: true, force: true })
  }
})

test('a server of NATS that is away is told with its group', async ({ browser }) => {
  const folder = mkdtempSync(join(plane().folder, 'away-'))
  // Nothing listens on the port of discard.
  const server = launch(folder, 18_000 + (process.pid % 2_000), ['--nats', 'nats://127.0.0.1:9', '--nats-group', 'site-z'])
  try {
    const context = await browser.newContext({ locale: 'en-GB' })
    const page = await context.newPage()
    await page.goto(await address(server))
    const trouble = page.getByTestId('trouble')
    await expect(trouble).toContainText('NATS does not work for the group site-z since')
    await expect(trouble).toContainText('no server answers')
    await expect(trouble).toContainText('Start nats-server there')
    await page.getByLabel('Language').selectOption('ja')
    await expect(trouble).toContainText('グループ site-z の NATS が使えません')
    await context.close()
  } finally {
    const ended = new Promise((done) => server.once('exit', done))
    server.kill('SIGKILL')
    await ended
    rmSync(folder, { recursive: true, force: true })
  }
})
