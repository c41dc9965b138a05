import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { blocked, closed, ended, fresh, relationship, startRun, tree } from './fleet'
import { accessible, expect, goTo, test } from './page'
import { api, FAILURES, plane } from './server'

const RATE = '20 kB/s'

test('a run is watched live, limited, paused, resumed and cancelled', async ({ admin }) => {
  test.setTimeout(120_000)
  const source = tree(fresh('live source'), 3000, 4000)
  const made = await relationship(fresh('live'), source, join(plane().folder, fresh('live target')), { limits: { version: 1, bytes_per_second: 200_000 } })
  await goTo(admin, `relationships/${made.id}`)
  await admin.getByRole('button', { name: 'Start a run' }).click()
  await expect(admin.getByRole('heading', { name: /^Run #/ })).toBeVisible()
  const id = Number(/runs\/(\d+)/.exec(admin.url())?.[1])
  await expect(admin.getByText('Running', { exact: true })).toBeVisible()

  // The chart and the lanes move without a reload.
  const chart = admin.getByRole('img', { name: /^Chart: now/ })
  await expect(chart).toHaveAttribute('aria-label', /now [1-9][\d.]* (kB|MB)\/s/)
  await expect(admin.getByRole('rowheader', { name: 'built-in' })).toBeVisible()
  const unit = admin.getByRole('row').filter({ has: admin.getByRole('cell', { name: 'a limit of rate or operations' }) })
  await expect(unit.first().getByRole('cell').nth(-2)).toHaveText(/^[1-9]\d*$/)
  await expect(admin.getByText('Bottleneck: a limit of rate or operations')).toBeVisible()
  await expect(admin.getByRole('list', { name: 'Phases' }).getByText('Copy')).toHaveAttribute('aria-current', 'step')
  const done = async () => Number((await admin.locator('.figures strong').first().innerText()).replaceAll(',', ''))
  const before = await done()
  await expect.poll(done, { timeout: 20_000 }).toBeGreaterThan(before)
  await accessible(admin, 'run')

  // Limits are moved while it runs.
  await admin.getByRole('button', { name: 'Limits' }).click()
  const dialog = admin.getByRole('dialog')
  const rate = dialog.getByRole('textbox', { name: 'Rate, over all brokers' })
  const limits = async () => (await api<{ limits?: { bytes_per_second?: number; operations_per_second?: number } | null }>('GET', `/api/v1/runs/${id}`)).limits
  await rate.fill(RATE)
  await rate.press('Tab')
  // What is typed counts once it is applied, and the page tells what holds.
  await expect(dialog.getByTestId('limits')).toHaveText('Not applied yet.')
  expect((await limits())?.bytes_per_second).toBe(200_000)
  await dialog.getByRole('button', { name: 'Apply' }).click()
  await expect(dialog.getByTestId('limits')).toHaveText(/^Held to 20\.0 kB\/s since \d\d:\d\d:\d\d\.$/)
  expect(await limits()).toMatchObject({ bytes_per_second: 20_000 })
  await accessible(admin, 'limits')
  const operations = dialog.getByRole('spinbutton', { name: 'Operations/s at each end' })
  await expect(dialog.getByText('500 copy about 250 small files a second')).toBeVisible()
  await operations.fill('400')
  await operations.press('Enter')
  await expect(dialog.getByTestId('limits')).toContainText('Held to 20.0 kB/s, 400 operations/s at each end since')
  expect(await limits()).toMatchObject({ bytes_per_second: 20_000, operations_per_second: 400 })
  // The button stays where it is when the field is left.
  await operations.pressSequentially('0')
  await dialog.getByRole('button', { name: 'Apply' }).click()
  await expect(dialog.getByTestId('limits')).toContainText('4,000 operations/s at each end since')
  await rate.fill('1 B')
  await rate.press('Enter')
  await expect(rate).toHaveAttribute('aria-invalid', 'true')
  expect(await limits()).toMatchObject({ bytes_per_second: 20_000 })
  await admin.keyboard.press('Escape')

  // Limits that it shares are named.
  await api('PUT', '/api/v1/groups/local/limits', { version: 1, operations_per_second: 5_000, paused: false })
  await expect(admin.getByText('Limits of the group local: 5,000 operations/s')).toBeVisible()
  await api('PUT', '/api/v1/groups/local/limits', { version: 1, paused: false })

  await admin.getByRole('button', { name: 'Pause' }).click()
  await expect(admin.getByText('Paused', { exact: true })).toBeVisible()
  await admin.getByRole('button', { name: 'Resume' }).click()
  await expect(admin.getByText('Running', { exact: true })).toBeVisible()

  await admin.getByRole('button', { name: 'Cancel the run' }).click()
  await admin.getByRole('dialog').getByRole('button', { name: 'Cancel the run' }).click()
  await expect(admin.getByText('Cancelled', { exact: true })).toBeVisible()
  await expect(admin.getByRole('link', { name: 'Download the report' })).toBeVisible()
  // What was done is not forgotten, and the interface tells it as the page does.
  const { figures } = await api<{ figures: { entries_done: number } }>('GET', `/api/v1/runs/${id}`)
  expect(figures.entries_done).toBeGreaterThan(0)
  expect(await done()).toBe(figures.entries_done)
})

test('the end of a run is foretold from the one before', async ({ admin }) => {
  test.setTimeout(120_000)
  const name = fresh('foretold source')
  const source = tree(name, 400, 10_000)
  const made = await relationship(fresh('foretold'), source, join(plane().folder, fresh('foretold target')))
  await ended(await startRun(made.id))
  tree(name, 200, 10_001)
  await api('PUT', '/api/v1/groups/local/limits', { version: 1, bytes_per_second: 150_000 })
  const run = await startRun(made.id)
  await goTo(admin, `runs/${run}`)
  await expect(admin.getByText(/^90 %: within \d+ s$/)).toBeVisible({ timeout: 30_000 })
  await expect(admin.getByRole('progressbar')).toHaveAttribute('value', /^0\.[4-9]/)
  await api('PUT', '/api/v1/groups/local/limits', { version: 1 })
  await ended(run)
  await expect(admin.getByText('Complete', { exact: true })).toBeVisible()
})

test('failures are filtered and retried, the report is downloaded, and runs are compared', async ({ admin }) => {
  test.setTimeout(120_000)
  const source = tree(fresh('failing source'), 400)
  const target = join(plane().folder, fresh('failing target'))
  const inTheWay = blocked(source, target, 150)
  const made = await relationship(fresh('failing'), source, target)
  const run = await startRun(made.id)
  const outcome = await ended(run)
  expect(outcome).toMatchObject({ state: 'partial', failures: 150 })

  await goTo(admin, `runs/${run}`)
  await expect(admin.getByText('Partial', { exact: true })).toBeVisible()
  await expect(admin.getByText('150 rows')).toBeVisible()
  const paths = admin.getByRole('region', { name: 'Failures' }).getByRole('button')
  await expect(paths.first()).toBeVisible()
  await admin.getByLabel('Path begins with').fill('d1/')
  await expect(admin.getByText('50 rows')).toBeVisible()
  await expect(paths.first()).toContainText('d1/')
  await admin.getByLabel('Path begins with').fill('nowhere')
  await expect(admin.getByText('Nothing matches the filter.')).toBeVisible()
  await admin.getByLabel('Path begins with').fill('')
  await paths.first().click()
  await expect(admin.getByRole('dialog')).toContainText('d0/f')
  await accessible(admin, 'failure')
  await admin.keyboard.press('Escape')

  const download = admin.waitForEvent('download')
  await admin.getByRole('link', { name: 'Download the report' }).click()
  const file = await download
  expect(file.suggestedFilename()).toBe(`hakobu-run-${run}.json`)
  expect(JSON.parse(readFileSync(await file.path(), 'utf8'))).toMatchObject({ schema: 'hakobu.fleet.run/1', run, failures: 150, outcome: 'partial' })

  inTheWay.forEach((path) => rmSync(path, { recursive: true }))
  await admin.getByRole('button', { name: 'Retry what failed' }).click()
  await expect(admin).not.toHaveURL(new RegExp(`runs/${run}$`))
  await expect(admin.getByText('Complete', { exact: true })).toBeVisible({ timeout: 30_000 })
  const second = Number(/runs\/(\d+)/.exec(admin.url())?.[1])
  expect(await api('GET', `/api/v1/runs/${second}`)).toMatchObject({ failures: 0, counters: { entries_created: 150 } })

  await goTo(admin, `relationships/${made.id}`)
  await admin.getByLabel(`Select run #${run}`).check()
  await admin.getByLabel(`Select run #${second}`).check()
  await admin.getByRole('button', { name: 'Compare' }).click()
  await expect(admin.getByRole('heading', { name: `Run #${second} compared with #${run}` })).toBeVisible()
  await expect(admin.getByRole('row', { name: /^Failures/ })).toContainText('150')
  await expect(admin.getByRole('region', { name: 'No longer failing' }).getByRole('listitem')).toHaveCount(100)
  await accessible(admin, 'comparison')
})

test('phases that were not done have no ticks', async ({ admin }) => {
  const phases = admin.getByRole('list', { name: 'Phases' })
  const failed = await startRun((await relationship(fresh('gone'), '/nowhere/at all', join(plane().folder, fresh('gone target')))).id)
  expect(await ended(failed)).toMatchObject({ state: 'failed' })
  await goTo(admin, `runs/${failed}`)
  await expect(phases.getByRole('listitem')).toHaveText([/Copy: not finished/, /Hard links: not begun/, /Directory attributes: not begun/])
  await expect(phases).not.toContainText('✓')
  await accessible(admin, 'phases')

  const source = tree(fresh('phases source'), 150)
  const target = join(plane().folder, fresh('phases target'))
  mkdirSync(join(target, 'd1'), { recursive: true })
  writeFileSync(join(target, 'extra'), 'only here')
  const open = closed(join(target, 'd1'))
  const request = { verb: 'sync', sources: [`${source}/`], target, arguments: ['--delete', '--max-delete=100%'] }
  const partial = await startRun((await relationship(fresh('phases'), source, target, { request })).id)
  expect(await ended(partial)).toMatchObject({ state: 'partial' })
  open()
  await goTo(admin, `runs/${partial}`)
  await expect(phases.getByText('Deletion: skipped, because entries failed')).toBeVisible()
  await expect(phases.getByText('✓')).toHaveCount(1)

  // What failed is made up for, and so is the deletion.
  await admin.getByRole('button', { name: 'Retry what failed' }).click()
  await expect(admin).not.toHaveURL(new RegExp(`runs/${partial}$`))
  await expect(admin.getByText('Complete', { exact: true })).toBeVisible({ timeout: 30_000 })
  await expect(phases.getByRole('listitem').filter({ hasText: 'Deletion' })).toContainText('✓')
})

test('a million failures scroll without a stutter', async ({ admin }) => {
  test.setTimeout(240_000)
  const runs = await api<{ items: { id: number; failures: number }[] }>('GET', '/api/v1/runs?limit=1000')
  const run = runs.items.find((one) => one.failures === FAILURES)
  await goTo(admin, `runs/${run?.id}`)
  const losses = admin.getByRole('region', { name: 'Not kept at the target' })
  await expect(losses.getByRole('row', { name: 'access control lists 1,000,000 projects/000/notes.txt (at the source)' })).toBeVisible()
  await expect(losses.getByRole('row', { name: /^hard links 500,000 / })).toBeVisible()
  const region = admin.getByRole('region', { name: 'Failures' })
  await expect(admin.getByText('1,000,000 rows')).toBeVisible()
  await expect(region.locator('table')).toHaveAttribute('aria-rowcount', '1000001')
  expect(await region.locator('tbody tr').count()).toBeLessThan(80)
  const frames = await region.evaluate(async (box) => {
    const took: number[] = []
    let last = performance.now()
    for (let step = 0; step < 60; step += 1) {
      box.dispatchEvent(new WheelEvent('wheel', { deltaY: 420, cancelable: true, bubbles: true }))
      await new Promise(requestAnimationFrame)
      const now = performance.now()
      took.push(now - last)
      last = now
    }
    return took.sort((one, other) => one - other)
  })
  expect(frames[30] ?? 0).toBeLessThan(50)
  expect(frames[54] ?? 0).toBeLessThan(120)
  // Each turn of the wheel is ten rows, though the bar is too coarse for that.
  const first = Number(await region.locator('tbody tr[aria-rowindex]').nth(8).getAttribute('aria-rowindex'))
  expect(first).toBeGreaterThan(590)
  expect(first).toBeLessThan(615)
  // The end is reached, and little of the list is kept on the way.
  await region.focus()
  await admin.keyboard.press('End')
  await expect(region.getByRole('button', { name: /0999999\.bin/ })).toBeVisible({ timeout: 180_000 })
  await admin.getByLabel('Kind').selectOption({ index: 1 })
  await expect(region.getByRole('button').first()).toBeVisible()
})

test('runs are listed with their states', async ({ admin }) => {
  await goTo(admin, 'runs?state=partial')
  await expect(admin.getByRole('cell').getByText('Partial', { exact: true }).first()).toBeVisible()
  await expect(admin.getByRole('cell').getByText('Complete', { exact: true })).toHaveCount(0)
  await accessible(admin, 'runs')
})
