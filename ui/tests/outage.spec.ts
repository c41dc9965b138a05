import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, goTo, test } from './page'
import { address, launch, plane } from './server'

test('a control plane that is killed is missed, and found again', async ({ browser }) => {
  test.setTimeout(120_000)
  const folder = mkdtempSync(join(plane().folder, 'outage-'))
  const port = 26_000 + (process.pid % 6_000)
  let server = launch(folder, port)
  try {
    const context = await browser.newContext({ locale: 'en-GB' })
    const page = await context.newPage()
    await page.goto(await address(server))
    await expect(page.getByRole('heading', { name: 'Relationships', level: 1 })).toBeVisible()
    await goTo(page, 'brokers')
    await expect(page.getByRole('rowheader', { name: 'built-in' })).toBeVisible()
    const ended = new Promise((done) => server.once('exit', done))
    server.kill('SIGKILL')
    await ended
    await expect(page.getByText('Connection to the control plane lost')).toBeVisible()
    // What was there stays to be read.
    await expect(page.getByRole('rowheader', { name: 'built-in' })).toBeVisible()
    server = launch(folder, port)
    const first = await address(server)
    // Sessions end with the control plane.
    await expect(page.getByText('Your session has ended')).toBeVisible({ timeout: 30_000 })
    // The tab has the page: opening the address changes only what is behind the hash.
    await page.goto(first)
    await expect(page.getByRole('heading', { name: 'Relationships', level: 1 })).toBeVisible()
    await expect(page.getByText('Connection to the control plane lost')).toHaveCount(0)
    await context.close()
  } finally {
    server.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
})

test('a control plane that waits says who leads', async ({ browser }) => {
  const context = await browser.newContext({ locale: 'en-GB', baseURL: plane().url })
  const page = await context.newPage()
  const refusal = { kind: 'standby', message: 'this control plane waits, and "two" leads' }
  await page.route('**/api/v1/session', (route) => route.fulfill({ status: 503, json: refusal }))
  await page.route('**/readyz', (route) => route.fulfill({ status: 503, json: { status: 'standby', leader: 'two' } }))
  await page.goto('/')
  await expect(page.getByRole('alert')).toContainText('The control plane “two” leads now, and this one waits.')
  await page.route('**/readyz', (route) => route.fulfill({ status: 503, json: { status: 'standby', ledger_down_since_ms: Date.now() } }))
  await expect(page.getByRole('alert')).toContainText('The ledger does not work since')
  await page.unrouteAll()
  await expect(page.getByRole('heading', { name: 'Sign in' })).toBeVisible()
  await context.close()
})
