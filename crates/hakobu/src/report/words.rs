//! The words for names in a report: stages, transports, losses, differences, kinds of errors.
//! A name that is not known here is of another version, and is shown as it is.

use hakobu_core::path::lossy;

use super::page::{LineSpan, PageLine, name, said, words};
use crate::language::Language;

/// A name with its meaning in each language.
type NamedMeaning = (&'static str, &'static str, &'static str);

const STAGES: [NamedMeaning; 21] = [
    ("source read", "reading from the source", "コピー元の読み取り"),
    ("hash", "computing digests", "ハッシュ計算"),
    ("compress", "compressing", "圧縮"),
    ("send", "encrypting and sending", "暗号化と送信"),
    ("target write", "writing to the target", "コピー先への書き込み"),
    ("target", "waiting for the target", "コピー先の応答待ち"),
    ("target sync", "final flush to stable storage", "ストレージへの最終書き込み(同期)"),
    ("scan", "listing and comparing", "一覧の取得と比較"),
    ("idle", "idle", "処理待ち"),
    ("rate limit", "waiting for a rate limit", "設定された上限による待ち"),
    ("operation limit", "limited by --iops-limit", "--iops-limit による制限"),
    ("source latency limit", "limited by --source-p99", "--source-p99 による制限"),
    ("processor", "the processors", "CPU"),
    ("source processor", "the processors at the source", "コピー元の CPU"),
    ("target processor", "the processors at the target", "コピー先の CPU"),
    ("network", "the network", "ネットワーク"),
    ("target's receive window", "the receive window at the target", "コピー先の受信ウィンドウ"),
    ("source's send buffer", "the send buffer at the source", "コピー元の送信バッファ"),
    ("round trips", "round trips", "往復の遅延"),
    (
        "latency of the source's file server",
        "the latency of the source's file server",
        "コピー元のファイルサーバーの応答の遅延",
    ),
    (
        "latency of the target's file server",
        "the latency of the target's file server",
        "コピー先のファイルサーバーの応答の遅延",
    ),
];

/// The meaning of each stage as a bottleneck.
const LIMITS: [NamedMeaning; 21] = [
    (
        "source read",
        "A faster disk at the source would make it faster.",
        "コピー元のディスクが速ければ、さらに速くなります。",
    ),
    (
        "hash",
        "More or faster processor cores would make it faster.",
        "CPU のコアが多いか速ければ、さらに速くなります。",
    ),
    (
        "compress",
        "More or faster processor cores at the source would make it faster, or --compress none.",
        "コピー元の CPU のコアが多いか速ければ、または --compress none であれば、さらに速くなります。",
    ),
    (
        "send",
        "The transfer waited for the network or for encryption.",
        "ネットワーク、または送信のための暗号化が速度を決めていました。",
    ),
    (
        "target write",
        "A faster disk at the target would make it faster.",
        "コピー先のディスクが速ければ、さらに速くなります。",
    ),
    (
        "target",
        "The transfer waited for the target's disk or for round trips.",
        "コピー先のディスク、または往復の遅延が速度を決めていました。",
    ),
    (
        "target sync",
        "Most of the time was spent flushing data to stable storage.",
        "書き込んだデータをストレージに確定させる処理に最も時間がかかりました。",
    ),
    (
        "scan",
        "Most of the time was spent listing entries: there were many, with little data.",
        "移すデータに比べて項目の数が多く、一覧の取得に最も時間がかかりました。",
    ),
    (
        "idle",
        "There was not enough work for all lanes; fewer would have been as fast.",
        "すべてのレーンを使い切るだけの処理がありませんでした。レーンが少なくても速さは変わりません。",
    ),
    ("rate limit", "The configured limit was reached.", "指定どおりに速度を制限しました。"),
    ("operation limit", "The configured limit was reached.", "指定どおりに操作の数を制限しました。"),
    (
        "source latency limit",
        "The configured limit was reached: with more reads, those at the source took longer than allowed.",
        "指定どおりに制限しました。これより多く読むと、コピー元の読み取りの遅延が指定を超えました。",
    ),
    (
        "processor",
        "More or faster processor cores would make it faster.",
        "CPU のコアが多いか速ければ、さらに速くなります。",
    ),
    (
        "source processor",
        "The processors at the source had no time left: see what else runs there, or give it more cores.",
        "コピー元の CPU に余裕がありませんでした。ほかに動いているものを確認するか、コアを増やしてください。",
    ),
    (
        "target processor",
        "The processors at the target had no time left: see what else runs there, or give it more cores.",
        "コピー先の CPU に余裕がありませんでした。ほかに動いているものを確認するか、コアを増やしてください。",
    ),
    (
        "network",
        "The link was saturated or shared with other traffic; if ssh carried the data, ssh itself may be the limit.",
        "回線の帯域を使い切っていたか、ほかの通信と共有していました。ssh 経由の場合は、ssh 自体が限界だった可能性もあります。",
    ),
    (
        "target's receive window",
        "The target's receive window is too small for this round trip: raise net.ipv4.tcp_rmem there, or use more lanes.",
        "往復遅延に対してコピー先の受信ウィンドウが小さすぎます。コピー先の net.ipv4.tcp_rmem を増やすか、レーンを増やしてください。",
    ),
    (
        "source's send buffer",
        "The source's send buffer is too small for this round trip: raise net.ipv4.tcp_wmem there, or use more lanes.",
        "往復遅延に対してコピー元の送信バッファが小さすぎます。コピー元の net.ipv4.tcp_wmem を増やすか、レーンを増やしてください。",
    ),
    (
        "round trips",
        "The round trip is long, and too few operations were in flight to fill the link.",
        "往復遅延が大きく、同時に進められる処理が足りませんでした。",
    ),
    (
        "latency of the source's file server",
        "Each operation waited for the file server: run hakobu on that server or close to it, or use more lanes.",
        "操作ごとにファイルサーバーの応答を待っていました。そのサーバー上またはその近くで hakobu を実行するか、レーンを増やしてください。",
    ),
    (
        "latency of the target's file server",
        "Each operation waited for the file server: run hakobu on that server or close to it, or use more lanes.",
        "操作ごとにファイルサーバーの応答を待っていました。そのサーバー上またはその近くで hakobu を実行するか、レーンを増やしてください。",
    ),
];

const WAYS: [NamedMeaning; 8] = [
    ("none", "it did not come to that", "データの転送に至らず"),
    ("local", "on one machine", "同一マシン内"),
    ("agent", "data connections of its own", "専用のデータ接続"),
    (
        "agent, relayed",
        "data connections, relayed by the machine on which the command was typed",
        "専用のデータ接続(コマンドを実行したマシンが中継)",
    ),
    ("ssh", "through ssh", "ssh 経由"),
    (
        "ssh, relayed",
        "through ssh, relayed by the machine on which the command was typed",
        "ssh 経由(コマンドを実行したマシンが中継)",
    ),
    (
        "sftp",
        "over SFTP, with nothing of hakobu on the other machine",
        "SFTP 経由(相手側で hakobu は動作しない)",
    ),
    ("rsync", "installed rsync", "インストール済みの rsync による転送"),
];

const LOSSES: [NamedMeaning; 8] = [
    ("acl", "access control lists", "アクセス制御リスト(ACL)"),
    ("xattr", "extended attributes", "拡張属性"),
    ("hardlinks", "hard links", "ハードリンク"),
    ("holes", "holes of sparse files", "スパースファイルの穴"),
    ("owner", "owner or group", "所有者またはグループ"),
    ("setid", "set-ID bits or capabilities", "set-ID ビットまたはケーパビリティ"),
    ("flags", "immutable or append-only flags", "変更不可・追記専用の属性"),
    ("times", "exact modification times", "正確な更新時刻"),
];

const LOSSES_MEAN: [NamedMeaning; 8] = [
    (
        "acl",
        "At the target, only their plain permissions decide who may use these entries.",
        "コピー先では通常のパーミッションだけで使用可否が決まります。",
    ),
    (
        "xattr",
        "Programs that keep something in these attributes do not find it at the target.",
        "この属性に情報を保存しているプログラムは、コピー先ではそれを参照できません。",
    ),
    (
        "hardlinks",
        "Hard links have become separate files: each takes space of its own, and a change of one does not appear in \
         the others.",
        "一つのファイルの複数の名前が別々のファイルになりました。\
         それぞれが容量を使い、一方の変更は他方に反映されません。",
    ),
    (
        "holes",
        "The content is the same, but the files take more space than at the source.",
        "内容は同じですが、コピー元より多くの容量を使います。",
    ),
    (
        "owner",
        "Not all owners could be set at the target; check who may use these entries.",
        "コピー先で設定できた所有者・グループになっています。使用できるユーザーを確認してください。",
    ),
    (
        "setid",
        "The programs run without the rights that they have at the source.",
        "これらのプログラムは、コピー元で持っていた権限なしで動作します。",
    ),
    (
        "flags",
        "The files can be changed at the target; set the flags there with chattr if they are wanted.",
        "コピー先ではファイルを変更できます。必要なら chattr で設定してください。",
    ),
    (
        "times",
        "The target stores times with less precision or within a smaller range; the nearest possible time was set.",
        "コピー先のファイルシステムは、より粗い単位または限られた範囲の時刻しか保持できないため、最も近い時刻を設定しました。",
    ),
];

const DIFFERENCES: [NamedMeaning; 11] = [
    ("only_in_source", "only in the source", "コピー元にのみ存在"),
    ("only_in_target", "only in the target", "コピー先にのみ存在"),
    ("kind", "kind of entry", "種類"),
    ("size", "size", "サイズ"),
    ("content", "content", "内容"),
    ("range", "content of a range", "内容(範囲)"),
    ("mode", "permissions", "パーミッション"),
    ("owner", "owner or group", "所有者またはグループ"),
    ("time", "modification time", "更新時刻"),
    ("xattr", "extended attributes or ACLs", "拡張属性または ACL"),
    ("links", "hard links", "ハードリンク"),
];

const KINDS: [NamedMeaning; 21] = [
    ("beyond_grant", "not allowed by what was granted", "許可された範囲外の操作"),
    ("cancelled", "stopped", "停止"),
    ("conflict", "something else is there", "別の種類のものが存在"),
    ("connection_lost", "connection lost", "接続が切断"),
    ("corrupt", "data was damaged", "データの破損"),
    ("io", "error of the system", "システムエラー"),
    ("locked", "another run is under way", "別の実行が進行中"),
    ("no_inodes", "no inodes left", "inode 不足"),
    ("no_space", "no space left", "空き容量不足"),
    ("not_found", "not found", "存在しない"),
    ("permission_denied", "permission denied", "アクセス権なし"),
    ("protocol", "protocol error", "プロトコルエラー"),
    ("read_only", "read-only file system", "読み取り専用ファイルシステム"),
    ("refused", "refused", "拒否"),
    ("requirement", "--require is not met", "--require を満たせない"),
    ("source_changed", "source changed while it was read", "読み取り中にコピー元が変更"),
    ("source_vanished", "source vanished", "コピー元が消失"),
    ("timed_out", "timed out", "タイムアウト"),
    ("unsupported", "not supported", "未対応"),
    ("usage", "wrong usage", "指定の誤り"),
    ("write_only", "can only be written to", "書き込み専用"),
];

/// The steps that fail most, in the words of the report.
const STEPS: [NamedMeaning; 30] = [
    ("changing attributes", "changing attributes", "属性の変更"),
    ("connecting", "connecting", "接続"),
    ("copying", "copying", "コピー"),
    ("creating the directory", "creating the directory", "ディレクトリの作成"),
    ("deleting", "deleting", "削除"),
    ("dialling", "dialling", "接続"),
    ("finishing", "finishing", "完了処理"),
    ("listing", "listing", "一覧の取得"),
    ("listing the directory", "listing the directory", "ディレクトリの一覧の取得"),
    ("locking the job", "locking the job", "ジョブのロック"),
    ("logging in", "logging in", "ログイン"),
    ("looking at the source", "looking at the source", "コピー元の確認"),
    ("looking at the sources", "looking at the sources", "コピー元の確認"),
    ("looking at the target", "looking at the target", "コピー先の確認"),
    ("making passes", "making passes", "差分転送"),
    ("making the directory", "making the directory", "ディレクトリの作成"),
    ("making the file", "making the file", "ファイルの作成"),
    ("making the hard link", "making the hard link", "ハードリンクの作成"),
    ("making the link", "making the link", "リンクの作成"),
    ("making the node", "making the node", "ノードの作成"),
    ("opening", "opening", "オープン"),
    ("opening the directory", "opening the directory", "ディレクトリのオープン"),
    ("reading", "reading", "読み取り"),
    ("reading back", "reading back", "読み戻し"),
    ("reading the device", "reading the device", "デバイスの読み取り"),
    ("removing", "removing", "削除"),
    ("sending to", "sending to", "送信"),
    ("setting the mode", "setting the mode", "パーミッションの設定"),
    ("writing", "writing", "書き込み"),
    ("writing to the device", "writing to the device", "デバイスへの書き込み"),
];

/// Why there is no digest, in the words of the report.
const NO_DIGEST: [NamedMeaning; 7] = [
    ("nothing was read", "nothing was read", "データを読み取っていません"),
    ("not asked for", "not asked for", "計算を指定していません"),
    (
        "its blocks are shared with the source (reflink), so no byte was read; --verify wire reads",
        "its blocks are shared with the source (reflink), so no byte was read; --verify wire reads",
        "コピー元とブロックを共有(reflink)したため、データを読み取っていません(--verify wire で読み取ります)",
    ),
    (
        "the store copied it by itself, so no byte was read; --verify wire reads",
        "the store copied it by itself, so no byte was read; --verify wire reads",
        "ストア自体がコピーしたため、データを読み取っていません(--verify wire で読み取ります)",
    ),
    (
        "it has holes of 1 GiB or more, of which none was taken; --verify wire takes one",
        "it has holes of 1 GiB or more, of which none was taken; --verify wire takes one",
        "1 GiB 以上の穴があるため計算していません(--verify wire で計算します)",
    ),
    ("no file was copied", "no file was copied", "コピーしたファイルがありません"),
    ("only a single file has one", "only a single file has one", "単独のファイルの場合にのみ計算します"),
];

fn known(list: &[NamedMeaning], key: &str, language: Language) -> Option<&'static str> {
    list.iter()
        .find(|(known, ..)| *known == key)
        .map(|(_, english, japanese)| language.say(english, japanese))
}

fn known_or_name(list: &[NamedMeaning], key: &str, language: Language) -> LineSpan {
    known(list, key, language).map_or_else(|| name(key), words)
}

/// The stage that replaces writing in a run that compares: the target is read there.
const COMPARED: NamedMeaning = ("target read", "reading and comparing there", "コピー先の読み取りと比較");
/// The name of the stage in other runs.
const WRITTEN: &str = "target write";

/// Returns the name of a stage and its meaning. `compares` means that nothing was written.
pub fn stage(key: &str, compares: bool, language: Language) -> PageLine {
    let (key, known) = match compares && [WRITTEN, COMPARED.0].contains(&key) {
        true => (COMPARED.0, Some(language.say(COMPARED.1, COMPARED.2))),
        false => (key, known(&STAGES, key, language)),
    };
    match (known, language) {
        (Some(known), Language::En) => vec![words(format!("{key} ({known})"))],
        (Some(known), Language::Ja) => vec![words(known)],
        (None, _) => vec![name(key)],
    }
}

/// Returns the names of all known stages, in the order in which they are stacked, with their labels.
pub fn stages(compares: bool, language: Language) -> impl Iterator<Item = (&'static str, &'static str)> {
    STAGES.iter().map(move |(key, _, japanese)| match compares && *key == WRITTEN {
        true => (*key, language.say(COMPARED.0, COMPARED.2)),
        false => (*key, language.say(key, japanese)),
    })
}

/// Returns the meaning of a stage as a bottleneck.
pub fn limit(key: &str, compares: bool, language: Language) -> Option<&'static str> {
    match compares && [WRITTEN, COMPARED.0].contains(&key) {
        true => Some(language.say(
            "The run waited for the target's disk or file server, and for the comparison there.",
            "コピー先のディスクまたはファイルサーバーの読み取りと、比較の処理が速度を決めていました。",
        )),
        false => known(&LIMITS, key, language),
    }
}

/// The way that the data took.
pub fn way(key: &str, language: Language) -> PageLine {
    match known(&WAYS, key, language) {
        Some(known) => vec![words(match language {
            Language::En => format!("{key} ({known})"),
            Language::Ja => format!("{key}({known})"),
        })],
        None => vec![name(key)],
    }
}

/// Returns the name of a loss.
pub fn loss(key: &str, language: Language) -> LineSpan {
    known_or_name(&LOSSES, key, language)
}

/// Returns the name of a loss, printable.
pub(crate) fn loss_name(key: &str, language: Language) -> String {
    known(&LOSSES, key, language).map_or_else(|| lossy(key.as_bytes()), str::to_owned)
}

/// Returns the meaning of a loss.
pub fn loss_means(key: &str, language: Language) -> Option<&'static str> {
    known(&LOSSES_MEAN, key, language)
}

/// Returns the name of a difference.
pub fn difference(key: &str, language: Language) -> LineSpan {
    known_or_name(&DIFFERENCES, key, language)
}

/// The kind of an error.
pub fn kind(key: &str, language: Language) -> LineSpan {
    known_or_name(&KINDS, key, language)
}

/// Why there is no digest.
pub fn no_digest(reason: &str, language: Language) -> LineSpan {
    known(&NO_DIGEST, reason, language).map_or_else(|| said(reason), words)
}

/// The step that failed.
pub fn step(during: &str, language: Language) -> LineSpan {
    known(&STEPS, during, language).map_or_else(|| said(during), words)
}

/// The source or the target.
pub fn side(key: &str, language: Language) -> Option<&'static str> {
    match key {
        "source" => Some(language.say("source", "コピー元")),
        "target" => Some(language.say("target", "コピー先")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use hakobu_core::counters::LaneStage;
    use hakobu_core::event::Different;
    use hakobu_core::extent::Extent;
    use hakobu_core::losses::LossKind;

    use super::*;

    #[test]
    fn what_reports_name_has_words() {
        let ja = Language::Ja;
        let servers = ["source", "target"].map(|end| format!("latency of the {end}'s file server"));
        let others = ["target write"].into_iter().chain(servers.iter().map(String::as_str));
        for stage in LaneStage::ALL.map(LaneStage::name).into_iter().chain(others) {
            assert!(known(&STAGES, stage, ja).is_some() && limit(stage, false, ja).is_some(), "{stage}");
        }
        for lost in [
            LossKind::Acl,
            LossKind::Xattr,
            LossKind::HardLinks,
            LossKind::Holes,
            LossKind::Owner,
            LossKind::SetId,
            LossKind::Flags,
            LossKind::Times,
        ] {
            assert!(
                matches!(loss(lost.name(), ja), LineSpan::Words(_)) && loss_means(lost.name(), ja).is_some()
            );
        }
        assert!(side("source", ja).is_some() && side("target", ja).is_some());
        for different in [
            Different::OnlyInSource,
            Different::OnlyInTarget,
            Different::Kind,
            Different::Size,
            Different::Content,
            Different::Range(Extent { offset: 0, length: 1 }),
            Different::Mode,
            Different::Owner,
            Different::Time,
            Different::Extended,
            Different::Links,
        ] {
            assert!(matches!(difference(different.name(), ja), LineSpan::Words(_)), "{different:?}");
        }
        assert_eq!(stage("new\x07", false, ja), [LineSpan::Name("new\\u{7}".into())]);
        assert_eq!(stage("target write", true, ja), [LineSpan::Words("コピー先の読み取りと比較".into())]);
        assert_eq!(kind("no_space", ja), LineSpan::Words("空き容量不足".into()));
        assert_eq!(no_digest("because", ja), LineSpan::Said("because".into()));
    }
}
