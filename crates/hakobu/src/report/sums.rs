//! The sums of a run: entries, bytes, time, memory.

use hakobu_core::report::Report;
use hakobu_core::units::{format_bytes, format_rate_and_bits};

use super::page::{PageBlock, PageSection, words};
use crate::language::Language;

/// Returns the counts of entries by result.
pub fn entries(report: &Report, language: Language) -> Option<PageSection> {
    let (counts, compares) = (&report.entries, report.only_compared);
    let unchanged = match compares {
        true => ("equal", "一致"),
        false => ("unchanged", "変更なし"),
    };
    let rows = [
        (counts.scanned, ("scanned at the source", "スキャン(コピー元)")),
        (counts.created, ("created", "新規作成")),
        (counts.updated, ("updated", "更新")),
        (counts.unchanged, unchanged),
        (counts.attributes_only, ("attributes only", "属性のみ更新")),
        (counts.different, ("different", "差異あり")),
        (counts.compared, ("content compared", "内容を比較")),
        (
            counts.examined,
            (
                "examined: asked for one by one, as the listing does not show enough",
                "個別に照会(一覧だけでは判断できないもの)",
            ),
        ),
        (counts.deleted, ("deleted from the target", "コピー先から削除")),
        (counts.only_in_target, ("only in the target", "コピー先にのみ存在")),
        (counts.skipped, ("skipped", "スキップ")),
        (counts.failed, ("failed", "失敗")),
    ];
    let shown = rows.into_iter().enumerate().filter(|(index, (count, _))| *index == 0 || *count > 0);
    let row =
        |(english, japanese), count| vec![language.say(english, japanese).to_owned(), language.count(count)];
    let rows = shown.map(|(_, (count, label))| row(label, count)).collect();
    let head = vec![language.say("Entries", "項目").to_owned(), language.say("Number", "件数").to_owned()];
    PageSection::of(language.say("Entries", "項目数"), vec![PageBlock::Table(head, rows)])
}

/// Bytes by where they went, and how fast.
pub fn bytes(report: &Report, language: Language) -> Option<PageSection> {
    let bytes = &report.bytes;
    let rows = [
        (
            report.bytes_done,
            match report.only_compared {
                true => ("compared", "比較した量"),
                false => {
                    ("total processed (written, zeros, equal)", "処理した量(書き込み・ゼロ・一致の合計)")
                }
            },
        ),
        (bytes.target_written, ("written to the target", "コピー先へ書き込み")),
        (bytes.source_read, ("read from the source", "コピー元から読み取り")),
        (bytes.target_read, ("read from the target", "コピー先から読み取り")),
        (bytes.zeros_skipped, ("zeros not sent", "送らずに済んだゼロ")),
        (report.differing_bytes, ("in ranges that differ", "差異のある範囲")),
        (bytes.wire_sent.unwrap_or(0), ("sent over the network", "ネットワーク送信")),
        (bytes.compressed, ("compressed for sending", "圧縮して送信した内容")),
        (bytes.compressed_to, ("compressed size", "その圧縮後の量")),
        (bytes.wire_received.unwrap_or(0), ("received over the network", "ネットワーク受信")),
        (bytes.planned, ("to transfer, at most", "コピー予定 (最大)")),
    ];
    let shown = rows.into_iter().enumerate().filter(|(index, (count, _))| *index == 0 || *count > 0);
    let rows = shown.map(|(_, (count, (english, japanese)))| {
        vec![language.say(english, japanese).to_owned(), format_bytes(count), language.count(count)]
    });
    let head = [("Bytes", "データ量"), ("Size", "サイズ"), ("Exactly", "バイト数")];
    let head = head.map(|(english, japanese)| language.say(english, japanese).to_owned()).to_vec();
    let mut facts = Vec::new();
    if report.throughput_bytes_per_second > 0 {
        let rate = format_rate_and_bits(report.throughput_bytes_per_second);
        facts.push((language.say("Throughput", "スループット").to_owned(), vec![words(rate)]));
    }
    let seconds = &report.seconds;
    let parts = [
        (seconds.connect, ("connect", "接続")),
        (seconds.scan, ("scan", "スキャン完了まで")),
        (seconds.transfer, ("transfer", "転送")),
        (seconds.paused, ("of which paused by the timetable", "うち時間割による休止")),
        (seconds.held_still.unwrap_or(0.0), ("with the source frozen", "コピー元の書き込みを止めた時間")),
        (seconds.verify, ("verify", "検証")),
        (seconds.total, ("in all", "合計")),
    ];
    let spent =
        parts.into_iter().filter(|(seconds, _)| *seconds > 0.0).map(|(seconds, (english, japanese))| {
            format!("{} {}", language.say(english, japanese), language.seconds(seconds))
        });
    let spent = spent.collect::<Vec<_>>().join(language.say(", ", "、"));
    if !spent.is_empty() {
        facts.push((language.say("Time", "時間の内訳").to_owned(), vec![words(spent)]));
    }
    if report.outages.count > 0 {
        let (count, time) = (language.count(report.outages.count), language.seconds(report.outages.seconds));
        let said = match language {
            Language::En => format!("{count} times, {time} without it"),
            Language::Ja => format!("{count} 回、切断時間 {time}"),
        };
        facts.push((language.say("Connection lost", "接続の切断").to_owned(), vec![words(said)]));
    }
    let mut blocks = vec![PageBlock::Table(head, rows.collect())];
    if !facts.is_empty() {
        blocks.push(PageBlock::Facts(facts));
    }
    PageSection::of(language.say("Bytes and throughput", "データ量とスループット"), blocks)
}

/// The most memory of each side.
pub fn memory(report: &Report, language: Language) -> Option<PageSection> {
    let peak = &report.peak_memory_bytes;
    let sides =
        [(peak.source, ("At the source", "コピー元側")), (peak.target, ("At the target", "コピー先側"))];
    let known = sides.into_iter().filter_map(|(bytes, label)| Some((bytes?, label)));
    let facts: Vec<_> = known
        .map(|(bytes, (english, japanese))| {
            (language.say(english, japanese).to_owned(), vec![words(format_bytes(bytes))])
        })
        .collect();
    let blocks = if facts.is_empty() { Vec::new() } else { vec![PageBlock::Facts(facts)] };
    PageSection::of(language.say("Peak memory", "最大メモリ使用量"), blocks)
}
