import { chromium } from '@playwright/test'
const url = process.argv[2]
const b = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'] })
const c = await b.newContext({ viewport: { width: 1280, height: 800 }, locale: process.argv[3] ?? 'en-GB', colorScheme: process.argv[4] ?? 'light' })
const p = await c.newPage()
p.on('console', (m) => console.log('console', m.type(), m.text())); p.on('pageerror', (e) => console.log('pageerror', String(e)))
await p.goto(url)
await p.getByRole('heading', { level: 1 }).waitFor()
await p.waitForTimeout(1000)
for (const place of ['relationships', 'relationships/new', 'runs', 'brokers', 'schedules', 'tokens', 'audit', ...process.argv.slice(5)]) {
  await p.goto(url.split('#')[0] + '#/' + place)
  await p.waitForTimeout(900)
  await p.screenshot({ path: `/dev/shm/ui/${place.replaceAll('/', '-')}.png` })
}
await b.close()
