// The parts of reports that the wizard shows. Their forms are documented in the book: fields are only added.

function at(value: unknown, ...path: string[]): unknown {
  let found = value
  for (const name of path) found = typeof found === 'object' && found !== null ? (found as Record<string, unknown>)[name] : undefined
  return found
}
function number(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined
}
function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** The counts of a dry run, from `hakobu.report/1`. It deletes nothing: what it would delete is only at the target. */
export function plannedCounts(report: unknown) {
  const of = (name: string) => number(at(report, 'entries', name)) ?? 0
  return {
    created: of('created'), updated: of('updated'), unchanged: of('unchanged'), attributesOnly: of('attributes_only'), deleted: of('only_in_target'), failed: of('failed'),
    bytes: number(at(report, 'bytes', 'planned')),
  }
}

/** The error that ended a dry run before its end, in words. Its counts then say little or nothing. */
export function errorOfReport(report: unknown): string | undefined {
  return wordsOfError(at(report, 'error'))
}

/** An error in the form of reports, in words. */
function wordsOfError(error: unknown): string | undefined {
  const words = text(at(error, 'error'))
  if (words === undefined) return undefined
  const [during, place] = [text(at(error, 'during')), text(at(error, 'at'))]
  const step = [during, place].filter(Boolean).join(' ')
  return step === '' ? words : `${step}: ${words}`
}

/** The first entries that failed in a dry run. */
export function failuresOfReport(report: unknown): { path: string; words: string }[] {
  const failures = at(report, 'failures')
  return (Array.isArray(failures) ? failures : []).slice(0, 10).map((failure: unknown) => ({ path: text(at(failure, 'path')) || '.', words: text(at(failure, 'error')) ?? '' }))
}

/** The prediction of a probe, from `hakobu.probe/1`. */
export function prediction(report: unknown) {
  const tree = at(report, 'prediction', 'tree')
  return {
    obstacle: wordsOfError(at(report, 'obstacle')) ?? wordsOfError(at(report, 'requests', 'error')) ?? wordsOfError(at(report, 'error')),
    rate: number(at(report, 'prediction', 'bytes_per_second')),
    limitedBy: text(at(report, 'prediction', 'limited_by')),
    firstSeconds: number(at(tree, 'first_copy', 'seconds')),
    firstLimitedBy: text(at(tree, 'first_copy', 'limited_by')),
    unchangedSeconds: number(at(tree, 'unchanged', 'seconds')),
  }
}
