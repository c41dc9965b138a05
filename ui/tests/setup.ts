import { start } from './server'

export default async function setup(): Promise<() => void> {
  return start()
}
