// The options of a copy that the wizard offers, and their arguments. Others stay as further arguments, one a line.

import type { TextKey } from '../language/language.svelte'

/** Those of `consent` stand beside the command, which asks for them. */
export type OptionGroup = 'comparison' | 'selection' | 'metadata' | 'performance' | 'consent' | 'stores'

interface OptionOf<Kind extends string> {
  kind: Kind
  flag: string
  group: OptionGroup
  /** The option is one of `sync` alone. */
  syncOnly?: boolean
}
export type TextOption = OptionOf<'text'> & { example: string }
export type CopyOption =
  | OptionOf<'switch'>
  | TextOption
  | (OptionOf<'choice'> & { choices: string[] })
  | (OptionOf<'set'> & { choices: string[] })

export const MAX_DELETE: TextOption = { kind: 'text', flag: '--max-delete', group: 'consent', example: '50%', syncOnly: true }
export const COPY_OPTIONS: CopyOption[] = [
  { kind: 'choice', flag: '--compare', group: 'comparison', choices: ['times', 'digest'] },
  { kind: 'choice', flag: '--verify', group: 'comparison', choices: ['wire', 'none'] },
  { kind: 'text', flag: '--newer-than', group: 'selection', example: '7d' },
  { kind: 'text', flag: '--older-than', group: 'selection', example: '2026-11-01' },
  { kind: 'text', flag: '--min-size', group: 'selection', example: '1MB' },
  { kind: 'text', flag: '--max-size', group: 'selection', example: '1GB' },
  { kind: 'switch', flag: '--one-file-system', group: 'selection' },
  { kind: 'set', flag: '--preserve', group: 'metadata', choices: ['no-owner', 'no-acl', 'no-xattr', 'no-hardlinks', 'selinux'] },
  { kind: 'set', flag: '--require', group: 'metadata', choices: ['xattr', 'acl', 'hardlinks', 'holes', 'owner', 'setid', 'flags', 'times'] },
  { kind: 'set', flag: '--allow', group: 'metadata', choices: ['setuid', 'devices'] },
  { kind: 'switch', flag: '--by-name', group: 'metadata' },
  { kind: 'switch', flag: '--delete', group: 'consent', syncOnly: true },
  MAX_DELETE,
  { kind: 'text', flag: '--lanes', group: 'performance', example: 'auto' },
  { kind: 'choice', flag: '--compress', group: 'performance', choices: ['auto', 'none', 'zstd'] },
  { kind: 'switch', flag: '--nice', group: 'performance' },
  { kind: 'text', flag: '--endpoint', group: 'stores', example: 'https://s3.example.org' },
  { kind: 'text', flag: '--region', group: 'stores', example: 'eu-central-1' },
  { kind: 'text', flag: '--storage-class', group: 'stores', example: 'STANDARD_IA' },
  { kind: 'text', flag: '--sse', group: 'stores', example: 'aws:kms' },
]

export interface FilterRule {
  isExclude: boolean
  pattern: string
}

/** The options of a request, as the wizard has them. */
export interface OptionValues {
  /** By flag: a text, a list, or `'on'`. */
  values: Record<string, string>
  rules: FilterRule[]
  /** One argument a line. */
  further: string
}

export function optionKey(option: CopyOption): TextKey {
  return `option.${option.flag.slice(2).replaceAll('-', '_')}` as TextKey
}

/** Reads arguments. Each has one meaning or stays as it is. */
export function parseArguments(words: string[]): OptionValues {
  const read: OptionValues = { values: {}, rules: [], further: '' }
  const further: string[] = []
  for (let index = 0; index < words.length; index += 1) {
    const word = words[index] ?? ''
    const split = /^(--[a-z0-9-]+)=(.*)$/s.exec(word)
    const flag = split?.[1] ?? (word === '-x' ? '--one-file-system' : word)
    const isRule = flag === '--exclude' || flag === '--include'
    const option = COPY_OPTIONS.find((one) => one.flag === flag)
    const takesValue = isRule || (option !== undefined && option.kind !== 'switch')
    const value = split ? split[2] : takesValue ? words[index + 1] : undefined
    const isOff = (option?.kind === 'choice' && !option.choices.includes(value ?? '')) || (option?.kind === 'set' && !(value ?? '').split(',').every((part) => option.choices.includes(part)))
    const isTwice = option !== undefined && flag in read.values
    if ((takesValue && value === undefined) || isOff || isTwice || (!takesValue && (split !== null || option === undefined))) {
      further.push(word)
      continue
    }
    if (takesValue && !split) index += 1
    if (isRule) read.rules.push({ isExclude: flag === '--exclude', pattern: value ?? '' })
    else if (option) read.values[flag] = option.kind === 'switch' ? 'on' : (value ?? '')
  }
  read.further = further.join('\n')
  return read
}

/** The options that say how a store is reached. */
const REACHING = ['--endpoint', '--region', '--profile', '--no-sign-request', '--request-payer', '--addressing']

/** Returns those of the arguments that say how a store is reached. A value stands behind `=` or is the next word. */
export function reachingArguments(words: string[]): string[] {
  return words.filter((word, index) => {
    const before = words[index - 1] ?? ''
    const isValue = !word.startsWith('-') && REACHING.includes(before) && !['--no-sign-request', '--request-payer'].includes(before)
    return isValue || REACHING.includes(word.split('=', 1)[0] ?? '')
  })
}

/** Returns the arguments of options. */
export function toArguments(options: OptionValues, isSync: boolean): string[] {
  const words: string[] = []
  for (const option of COPY_OPTIONS) {
    const value = options.values[option.flag]?.trim()
    if (!value || (option.syncOnly && !isSync)) continue
    words.push(option.kind === 'switch' ? option.flag : `${option.flag}=${value}`)
  }
  for (const rule of options.rules) {
    if (rule.pattern !== '') words.push(`${rule.isExclude ? '--exclude' : '--include'}=${rule.pattern}`)
  }
  return [...words, ...options.further.split('\n').filter((line) => line.trim() !== '')]
}
