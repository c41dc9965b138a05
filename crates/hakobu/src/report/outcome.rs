//! The outcome of a run, and its meaning.

use hakobu_core::report::{Outcome, Report};

use super::page::NewsTone;
use crate::language::Language;
use crate::render::summary::can_go_on;

/// The text for an outcome, in English and in Japanese. `{failed}` is the number of failed entries.
struct OutcomeText {
    tone: NewsTone,
    word: (&'static str, &'static str),
    means: (&'static str, &'static str),
}

const DONE: OutcomeText = OutcomeText {
    tone: NewsTone::Good,
    word: ("done", "完了"),
    means: (
        "Everything is at the target, and on stable storage unless --durable none was typed.",
        "すべてがコピー先にあり、ストレージへの書き込みも完了しています\
         (--durable none を指定した場合を除く)。",
    ),
};
const PLAN: OutcomeText = OutcomeText {
    tone: NewsTone::Good,
    word: ("plan", "計画のみ"),
    means: (
        "Only a plan (--dry-run): nothing was written.",
        "計画の確認のみ(--dry-run)です。何も書き込んでいません。",
    ),
};
const PLAN_WITH_FAILURES: OutcomeText = OutcomeText {
    tone: NewsTone::Mixed,
    word: ("plan, with failures", "計画のみ(一部は実行不可)"),
    means: (
        "Only a plan (--dry-run): nothing was written. {failed} could not be copied, listed below.",
        "計画の確認のみ(--dry-run)です。何も書き込んでいません。\
         {failed}はコピーできません(下記の一覧を参照)。",
    ),
};
const EQUAL: OutcomeText = OutcomeText {
    tone: NewsTone::Good,
    word: ("equal", "一致"),
    means: ("Source and target are equal.", "コピー元とコピー先は一致しています。"),
};
const EQUAL_SAMPLE: OutcomeText = OutcomeText {
    tone: NewsTone::Good,
    word: ("no differences found", "差異なし"),
    means: (
        "Names and attributes are equal, and so is the content of the files that were picked at random.",
        "名前と属性、および無作為に選んだファイルの内容は一致しています。",
    ),
};
const DIFFERENT: OutcomeText = OutcomeText {
    tone: NewsTone::Mixed,
    word: ("differences found", "差異あり"),
    means: (
        "Source and target are not equal; the differences are listed below.",
        "コピー元とコピー先は一致していません。差異は下記の一覧を参照してください。",
    ),
};
const PARTIAL: OutcomeText = OutcomeText {
    tone: NewsTone::Mixed,
    word: ("partly done", "一部未完了"),
    means: (
        "{failed} failed, listed below. Everything else is done.",
        "{failed}が失敗しました(下記の一覧を参照)。それ以外は完了しています。",
    ),
};
const WITHOUT_RIGHTS: OutcomeText = OutcomeText {
    tone: NewsTone::Mixed,
    word: ("partly done", "一部未完了"),
    means: (
        "All entries are at the target, but not all of their rights.",
        "すべての項目がコピー先にありますが、一部の権限は引き継いでいません。",
    ),
};
const PARTLY_COMPARED: OutcomeText = OutcomeText {
    tone: NewsTone::Mixed,
    word: ("partly compared", "一部未比較"),
    means: (
        "What was compared is equal. Attributes that the source has were not compared, since the target cannot hold them or may \
         not set them.",
        "比較した内容は一致しています。コピー元にあってもコピー先が保持または設定できない属性は比較していません。",
    ),
};
const SOURCE_CHANGED: OutcomeText = OutcomeText {
    tone: NewsTone::Mixed,
    word: ("not all done: the source changed", "一部未完了(コピー元が変更)"),
    means: (
        "What failed is a source that changed or vanished while it was read, and nothing else. Run it again when \
         the source is quiet.",
        "失敗したのは、読み取り中に変更または削除されたコピー元だけです。\
         コピー元への書き込みがないときに再実行してください。",
    ),
};
const FAILED: OutcomeText = OutcomeText {
    tone: NewsTone::Bad,
    word: ("failed", "失敗"),
    means: (
        "The run ended before everything was done. Complete entries are at the target. Entries that were not \
         reached are not listed.",
        "すべてを終える前に異常終了しました。それまでに完了した分はコピー先にあります。\
         未処理の項目は一覧に含まれません。",
    ),
};
const NOTHING_DONE: OutcomeText = OutcomeText {
    tone: NewsTone::Bad,
    word: ("failed", "失敗"),
    means: (
        "Nothing could be done: {failed} failed, listed below.",
        "完了した項目はありません。{failed}が失敗しました(下記の一覧を参照)。",
    ),
};
const WRONG_USAGE: OutcomeText = OutcomeText {
    tone: NewsTone::Bad,
    word: ("failed: wrong usage", "失敗(指定の誤り)"),
    means: (
        "The request cannot be carried out as it was typed; nothing was copied.",
        "指定された内容では実行できません。何もコピーしていません。",
    ),
};
const REFUSED: OutcomeText = OutcomeText {
    tone: NewsTone::Bad,
    word: ("refused", "実行を拒否"),
    means: (
        "It would have destroyed something, the target has too little space, another run was under way, or --require could \
         not be met.",
        "データを破壊するおそれがある、コピー先の空き容量が足りない、同じ処理が実行中である、または --require の条件を満たせないため、\
         実行を拒否しました。",
    ),
};
const INTERRUPTED: OutcomeText = OutcomeText {
    tone: NewsTone::Bad,
    word: ("interrupted", "中断"),
    means: ("It was stopped before everything was done.", "すべてを終える前に停止されました。"),
};
const RIGHTS_WITHHELD: (&str, &str) = (
    "Set-ID bits or capabilities of programs were left out: from another machine they come only with --allow \
     setuid.",
    "プログラムの set-ID ビットまたはケーパビリティは引き継いでいません。\
     別のマシンからは --allow setuid を指定した場合にのみ引き継ぎます。",
);
const GOES_ON: (&str, &str) = (
    "The same command resumes where it stopped.",
    "同じコマンドを再実行すると、停止したところから続行します。",
);

/// Returns the tone of the outcome in a word, and its meaning.
pub fn outcome(report: &Report, language: Language) -> (NewsTone, &'static str, Vec<String>) {
    let OutcomeText { tone, word, means } = told(report);
    let failed = language.entries(report.entries.failed.max(report.failures.len() as u64));
    let say = |(english, japanese): (&'static str, &'static str)| language.say(english, japanese);
    let mut meaning = vec![say(means).replace("{failed}", &failed)];
    if report.rights_withheld {
        meaning.push(say(RIGHTS_WITHHELD).to_owned());
    }
    if can_go_on(report) {
        meaning.push(say(GOES_ON).to_owned());
    }
    (tone, say(word), meaning)
}

fn told(report: &Report) -> OutcomeText {
    let usage = Outcome::WrongUsage.exit_code();
    let only_failures = report.error.is_none() && !report.failures.is_empty();
    match report.outcome {
        Outcome::Done if report.dry_run => PLAN,
        Outcome::Done if report.only_compared && report.sampled => EQUAL_SAMPLE,
        Outcome::Done if report.only_compared => EQUAL,
        Outcome::Done => DONE,
        Outcome::Partial if report.dry_run => PLAN_WITH_FAILURES,
        Outcome::Partial if report.is_partly_compared() && report.failures.is_empty() => PARTLY_COMPARED,
        Outcome::Partial if report.rights_withheld && report.failures.is_empty() => WITHOUT_RIGHTS,
        Outcome::Partial => PARTIAL,
        Outcome::Failed if report.exit_code == usage => WRONG_USAGE,
        Outcome::Failed if only_failures => NOTHING_DONE,
        Outcome::WrongUsage => WRONG_USAGE,
        Outcome::Failed => FAILED,
        Outcome::Refused => REFUSED,
        Outcome::Interrupted => INTERRUPTED,
        Outcome::Differences => DIFFERENT,
        Outcome::SourceChanged => SOURCE_CHANGED,
    }
}
