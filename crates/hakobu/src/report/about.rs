//! The sections of a report on the whole run: the request, the error that ended it, and the transport.

use hakobu_core::report::{
    Report, ReportDisk, ReportEnd, ReportMachine, ReportMachines, UsedTransport, Verified,
};
use hakobu_core::units::format_bytes;

use super::page::{LineSpan, PageBlock, PageLine, PageSection, ReportPage, name, path, words};
use super::{limits, lists, outcome, sums, words as vocabulary};
use crate::language::Language;
use crate::words::escaped_lines;

/// The page of a report.
pub fn page(report: &Report, language: Language) -> ReportPage {
    let (tone, outcome, meaning) = outcome::outcome(report, language);
    let code = report.exit_code;
    let outcome = match language {
        Language::En => format!("{outcome} (exit code {code})"),
        Language::Ja => format!("{outcome}(終了コード {code})"),
    };
    let sections = [
        run(report, language),
        machines(report, language),
        error(report, language),
        sums::entries(report, language),
        sums::bytes(report, language),
        way(report, language),
        limits::section(report, language),
        lists::losses(report, language),
        lists::failures(report, language),
        lists::deletions(report, language),
        lists::differences(report, language),
        lists::pairs(report, language),
        lists::passes(report, language),
        sums::memory(report, language),
    ];
    let sections = sections.into_iter().flatten().collect();
    ReportPage {
        language,
        warning: Vec::new(),
        title: title(report, language),
        outcome,
        tone,
        meaning,
        sections,
    }
}

fn title(report: &Report, language: Language) -> PageLine {
    let what = match report.only_compared {
        true => language.say("Report of a comparison", "比較レポート"),
        false if report.dry_run => language.say("Report of a plan", "実行計画レポート"),
        false => language.say("Transfer report", "転送レポート"),
    };
    vec![words(format!("{what}: ")), end_name(&report.source), words(" → "), end_name(&report.target)]
}

fn end_name(end: &ReportEnd) -> LineSpan {
    match &end.resolved {
        Some(resolved) => name(resolved),
        None => path(&end.typed, end.typed_base64.as_deref()),
    }
}

/// Returns the section on the request, the user and the time.
fn run(report: &Report, language: Language) -> Option<PageSection> {
    let say = |english: &'static str, japanese: &'static str| language.say(english, japanese).to_owned();
    let mut facts = Vec::new();
    let ends = std::iter::once(&report.source).chain(&report.further_sources);
    for end in ends.filter(|end| **end != ReportEnd::default()) {
        facts.push((say("Source", "コピー元"), end_line(end, language)));
    }
    facts.push((say("Target", "コピー先"), end_line(&report.target, language)));
    if !report.user.is_empty() {
        facts.push((say("Run by", "実行者"), vec![name(&report.user)]));
    }
    let moment = |text: &str| language.moment(text).map_or_else(|| name(text), words);
    for (label, text) in
        [(say("Started", "開始"), &report.started_at), (say("Ended", "終了"), &report.ended_at)]
    {
        if !text.is_empty() {
            facts.push((label, vec![moment(text)]));
        }
    }
    facts.push((say("Duration", "所要時間"), vec![words(language.seconds(report.seconds.total))]));
    for (label, text) in [
        (say("Command", "コマンド"), Some(&report.command)),
        (say("Version", "バージョン"), Some(&report.version)),
        (say("Job fingerprint", "コピーの識別子"), report.job.as_ref()),
    ] {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            facts.push((label, vec![name(text)]));
        }
    }
    if report.resumed {
        let from = say("data of an earlier run was used", "以前の実行で転送済みのデータを利用して続行");
        facts.push((say("Resumed", "再開"), vec![words(from)]));
    }
    PageSection::of(&say("Summary", "実行内容"), vec![PageBlock::Facts(facts)])
}

/// The machines that took part. One that has several roles is told once.
fn machines(report: &Report, language: Language) -> Option<PageSection> {
    let ReportMachines { controller, source, target } = &report.machines;
    let roles = [
        (source, language.say("Source", "コピー元")),
        (target, language.say("Target", "コピー先")),
        (controller, language.say("Controlled by", "実行したマシン")),
    ];
    let mut told: Vec<(String, &ReportMachine)> = Vec::new();
    for (machine, role) in roles {
        let Some(machine) = machine else { continue };
        match told.iter_mut().find(|(_, known)| *known == machine) {
            Some((roles, _)) => roles.push_str(&format!("{}{role}", language.say(", ", "、"))),
            None => told.push((role.to_owned(), machine)),
        }
    }
    let facts: Vec<_> =
        told.into_iter().map(|(roles, machine)| (roles, machine_line(machine, language))).collect();
    let blocks = if facts.is_empty() { Vec::new() } else { vec![PageBlock::Facts(facts)] };
    PageSection::of(language.say("Machines", "マシン"), blocks)
}

fn machine_line(machine: &ReportMachine, language: Language) -> PageLine {
    let mut line = Vec::new();
    for (label, text) in [
        ("", &machine.host),
        (language.say("address ", "アドレス "), &machine.address),
        ("", &machine.system),
        ("hakobu ", &machine.hakobu),
        (language.say("reached as ", "接続先の名前 "), &machine.name),
    ] {
        let Some(text) = text else { continue };
        let comma = if line.is_empty() { "" } else { language.say(", ", "、") };
        line.extend([words(format!("{comma}{label}")), name(text)]);
    }
    line
}

fn end_line(end: &ReportEnd, language: Language) -> PageLine {
    let mut line = vec![end_name(end)];
    let typed = end.resolved.as_ref().is_some_and(|resolved| *resolved != end.typed);
    if typed && !end.typed.is_empty() {
        line.push(words(language.say(" (typed: ", "(入力: ")));
        line.push(path(&end.typed, end.typed_base64.as_deref()));
        line.push(words(language.say(")", ")")));
    }
    if let Some(disk) = &end.identity {
        line.push(words(language.say("; disk ", "、ディスク ")));
        line.extend(disk_line(disk, language));
    }
    line
}

fn disk_line(disk: &ReportDisk, language: Language) -> PageLine {
    let mut line = vec![name(&disk.id)];
    for (label, text) in [
        (language.say(", model ", "、型番 "), &disk.model),
        (language.say(", serial number ", "、シリアル番号 "), &disk.serial),
    ] {
        if !text.is_empty() {
            line.extend([words(label), name(text)]);
        }
    }
    let (size, exact) = (format_bytes(disk.size_bytes), language.count(disk.size_bytes));
    line.push(words(match language {
        Language::En => format!(", {size} ({exact} bytes)"),
        Language::Ja => format!("、{size}({exact} バイト)"),
    }));
    line
}

/// Returns the section on the error that ended the run.
fn error(report: &Report, language: Language) -> Option<PageSection> {
    let error = report.error.as_ref()?;
    let mut facts =
        vec![(language.say("Kind", "種類").to_owned(), vec![vocabulary::kind(&error.kind, language)])];
    if !error.during.is_empty() {
        facts.push((
            language.say("While", "処理").to_owned(),
            vec![vocabulary::step(&error.during, language)],
        ));
    }
    if !error.at.is_empty() {
        facts.push((
            language.say("Where", "場所").to_owned(),
            vec![path(&error.at, error.at_base64.as_deref())],
        ));
    }
    let mut blocks = vec![PageBlock::Facts(facts)];
    if !error.error.is_empty() {
        blocks.push(PageBlock::Lines(escaped_lines(&error.error).lines().map(str::to_owned).collect()));
    }
    PageSection::of(language.say("Error", "終了の原因"), blocks)
}

/// The way of the data, and how it was checked.
fn way(report: &Report, language: Language) -> Option<PageSection> {
    let say = |english: &'static str, japanese: &'static str| language.say(english, japanese).to_owned();
    let of_ssh = || words(language.say("that of ssh", "ssh による暗号化"));
    let cipher = match (report.cipher.as_deref(), report.transport) {
        (None, route) if route.relies_on_ssh() => of_ssh(),
        (None, UsedTransport::Rsync) => words(language.say("none", "なし")),
        (None, _) => words(language.say("none: no data connections", "なし(データ接続なし)")),
        (Some("none"), route) if route.is_through_ssh() => of_ssh(),
        (Some("none"), _) => {
            words(language.say("none (authenticated, not encrypted)", "なし(認証のみ、暗号化なし)"))
        }
        (Some(cipher), _) => name(cipher),
    };
    let compression = match report.compression.as_str() {
        "" | "none" => words(language.say("none", "なし")),
        kind if report.compression_levels.is_empty() => name(kind),
        kind => {
            let levels: Vec<_> = report.compression_levels.iter().map(i8::to_string).collect();
            let levels = levels.join(", ");
            name(&format!("{kind}{}{levels}", language.say(", level ", "、レベル ")))
        }
    };
    let verified = match report.verified {
        Verified::None => language.say("not checked", "検査なし"),
        Verified::Wire => language.say(
            "what arrived was what had been read",
            "届いたデータが、読み取ったデータと同じであることを検査済み",
        ),
        Verified::Medium => language.say(
            "what the medium gives back is what had been read",
            "媒体から読み戻したデータが、読み取ったデータと同じであることを検査済み",
        ),
    };
    let mut facts = vec![
        (say("Transport", "転送方式"), vocabulary::way(report.transport.name(), language)),
        (say("Cipher", "暗号"), vec![cipher]),
        (say("Compression", "圧縮"), vec![compression]),
        (say("Lanes at most", "最大レーン数"), vec![words(language.count(report.lanes_max.into()))]),
    ];
    // A run that only read, or did not even read, had nothing to verify.
    if !report.only_compared && !report.dry_run {
        facts.push((say("Checked", "データ検査"), vec![words(verified)]));
    }
    let digest = say("BLAKE3 digest", "BLAKE3 ダイジェスト");
    match (&report.digest_blake3, &report.digest_blake3_reason) {
        (Some(known), _) => facts.push((digest, vec![name(known)])),
        (None, Some(reason)) => {
            let none = words(language.say("none: ", "なし: "));
            facts.push((digest, vec![none, vocabulary::no_digest(reason, language)]));
        }
        (None, None) => {}
    }
    PageSection::of(&say("Transport and verification", "経路と検査"), vec![PageBlock::Facts(facts)])
}
