import { join } from 'node:path'
import { fresh, relationship, startRun, tree } from './fleet'
import { expect, goTo, test } from './page'
import { api, plane } from './server'

test('a start that waits says for which run, on its page and in lists', async ({ admin }) => {
  test.setTimeout(180_000)
  const target = join(plane().folder, fresh('shared target'))
  const source = tree(fresh('shared source'), 300)
  const slow = await relationship(fresh('slow'), source, target, { limits: { version: 1, operations_per_second: 2 } })
  const run = await startRun(slow.id)
  const name = fresh('late')
  const late = await relationship(name, source, join(target, 'below'), { schedule: { version: 1, cron: '* * * * *' } })
  await goTo(admin, `relationships/${late.id}`)
  await expect(admin.getByRole('heading', { name, level: 1 })).toBeVisible()
  const delay = admin.getByTestId('delay')
  // The next minute has to begin.
  await expect(delay).toContainText(`waits for the end of run #${run}, which copies to this target`, { timeout: 75_000 })
  await admin.getByLabel('Language').selectOption('ja')
  await expect(delay).toContainText(`コピー中の実行 #${run} が終わるのを待っています`)
  await admin.getByLabel('言語').selectOption('en')
  await goTo(admin, 'schedules')
  const row = admin.getByRole('row').filter({ hasText: name })
  await expect(row.getByText('waits')).toBeVisible()
  await goTo(admin, `relationships?search=${encodeURIComponent(name)}`)
  await expect(row.getByText('waits')).toBeVisible()
  await goTo(admin, 'audit')
  await expect(admin.getByText('Delay scheduled start').first()).toBeVisible()
  await api('POST', `/api/v1/runs/${run}/cancel`)
  await goTo(admin, `relationships/${late.id}`)
  await expect(admin.getByRole('heading', { name, level: 1 })).toBeVisible()
  await expect(delay).toHaveCount(0, { timeout: 30_000 })
  // It would start again each minute.
  const view = await api<{ revision: number; relationship: object }>('GET', `/api/v1/relationships/${late.id}`)
  await api('PUT', `/api/v1/relationships/${late.id}`, { revision: view.revision, relationship: { ...view.relationship, schedule: null } })
})
