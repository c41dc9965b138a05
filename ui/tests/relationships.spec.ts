import { fresh, relationship } from './fleet'
import { expect, goTo, test } from './page'
import { api } from './server'

const MANY = 10_000

test.describe.configure({ mode: 'serial' })

test('10 000 relationships scroll without a stutter', async ({ admin }) => {
  test.setTimeout(300_000)
  let next = 0
  const make = async () => {
    while (next < MANY) {
      const number = String(next++).padStart(5, '0')
      const schedule = Number(number) % 3 === 0 ? { version: 1, cron: `${Number(number) % 60} 3 * * *`, time_zone: 'Asia/Tokyo' } : null
      await relationship(`department ${number}`, `/srv/departments/${number}`, `/mnt/new/${number}`, { schedule, owner: `team ${Number(number) % 40}` })
    }
  }
  await Promise.all(Array.from({ length: 16 }, make))
  await goTo(admin, 'relationships?order=name')
  await admin.reload()
  const region = admin.getByRole('region', { name: 'Relationships' })
  await expect(admin.getByRole('link', { name: 'department 00000' })).toBeVisible()
  // Only what is visible exists.
  expect(await region.locator('tbody tr').count()).toBeLessThan(80)
  const frames = await region.evaluate(async (box) => {
    const took: number[] = []
    let last = performance.now()
    for (let step = 0; step < 90; step += 1) {
      box.scrollTop += 400
      await new Promise(requestAnimationFrame)
      const now = performance.now()
      took.push(now - last)
      last = now
    }
    return took.sort((one, other) => one - other)
  })
  // The work for a frame, not the machine's other load: the median and nine of ten.
  expect(frames[45] ?? 0).toBeLessThan(50)
  expect(frames[81] ?? 0).toBeLessThan(120)
  await region.evaluate((box) => (box.scrollTop = box.scrollHeight))
  await expect(admin.getByRole('link', { name: 'department 09999' })).toBeVisible()
  await expect(admin.getByText(/^10,\d{3} rows$/)).toBeVisible()
})

test('they are searched, filtered and sorted, and the address keeps it', async ({ admin }) => {
  await goTo(admin, 'relationships')
  await admin.getByRole('searchbox').fill('departments/04217')
  await expect(admin.getByRole('link', { name: 'department 04217' })).toBeVisible()
  await expect(admin.getByText('1 row', { exact: true })).toBeVisible()
  await admin.reload()
  await expect(admin.getByRole('link', { name: 'department 04217' })).toBeVisible()
  await admin.getByRole('searchbox').fill('')
  await admin.getByRole('button', { name: 'Name' }).click()
  await expect(admin.getByRole('columnheader', { name: 'Name' })).toHaveAttribute('aria-sort', 'ascending')
  await expect(admin.getByRole('link', { name: 'department 00000' })).toBeVisible()
  await admin.getByLabel('State').selectOption('Failed')
  await expect(admin.getByText('Nothing matches the filter.')).toBeVisible()
})

test('a change elsewhere shows by itself', async ({ admin }) => {
  const name = fresh('watched')
  await goTo(admin, `relationships?search=watched&order=name`)
  const made = await relationship(name, '/nowhere/source', '/nowhere/target')
  await expect(admin.getByRole('link', { name })).toBeVisible()
  const view = await api<{ revision: number }>('GET', `/api/v1/relationships/${made.id}`)
  await api('DELETE', `/api/v1/relationships/${made.id}?revision=${view.revision}`)
  await expect(admin.getByRole('link', { name })).toHaveCount(0)
})

test('schedules are listed by their next start', async ({ admin }) => {
  await goTo(admin, 'schedules')
  await expect(admin.getByRole('link', { name: /department/ }).first()).toBeVisible()
  await expect(admin.getByText(/Asia\/Tokyo/).first()).toBeVisible()
})
