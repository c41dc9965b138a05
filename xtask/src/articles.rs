//! `cargo xtask articles`: runs `hakobu bench` against a temporary sshd and compares the results with the figures that
//! the articles published.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use hakobu_measure::bench::case::{
    BenchCase, Compressor, DataDirection, DataKind, EndKinds, Initiator, Method,
};
use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::sshd::{Sshd, SshdOptions};
use serde_json::Value;

use crate::table::MarkdownTable;

const FIGURES: &str = "docs/benchmarks";
/// The output directory of `--trial`.
const TRIAL: &str = "target/articles";
const PAGE: &str = "docs/book/the-articles-tables-today.md";
/// The markers in the page between which the tables are replaced.
const BEGIN: &str = "<!-- written by cargo xtask articles -->";
const END: &str = "<!-- end -->";
const RTT: Duration = Duration::from_micros(250);
const RATE_BITS: u64 = 1_000_000_000;

/// Measure the articles' tables on this machine and write them into the book (takes root)
#[derive(Debug, Args)]
pub struct ArticlesArgs {
    /// The program to measure, which must be a release build
    #[arg(long, default_value = "target/release/hakobu")]
    pub program: PathBuf,
    /// How long each of the two benches takes [default: 20m, with --trial 1m]
    #[arg(long)]
    pub time_budget: Option<String>,
    /// Measure nothing, and write the page from figures that are there
    #[arg(long)]
    pub page_only: bool,
    /// A short one, to see that all of it works: not --full, and figures and page go to target/articles instead
    #[arg(long)]
    pub trial: bool,
    /// Other load on the machine meanwhile, for the page: only you know
    #[arg(long)]
    pub note: String,
}

/// Runs the subcommand.
///
/// # Errors
/// Returns an error if a bench fails, or the figures or the page cannot be read or written.
pub fn run(args: &ArticlesArgs) -> Result<()> {
    let (figures, page) = match args.trial {
        true => (Path::new(TRIAL), Path::new(TRIAL).join("page.md")),
        false => (Path::new(FIGURES), PathBuf::from(PAGE)),
    };
    fs::create_dir_all(figures).with_context(|| figures.display().to_string())?;
    let files = ["loopback", "1gbit"].map(|name| figures.join(format!("articles-{name}.json")));
    if !args.page_only {
        let program = args.program.canonicalize().with_context(|| args.program.display().to_string())?;
        fs::write(&files[0], measure(&program, args, None)?)?;
        let link =
            Link::up(LinkSettings { rate_bits_per_second: Some(RATE_BITS), ..LinkSettings::with_rtt(RTT) })?;
        fs::write(&files[1], measure(&program, args, Some(&link))?)?;
    }
    let [loopback, link] = files.map(|file| -> Result<Figures> {
        let name = || file.display().to_string();
        let figures = Figures(serde_json::from_slice(&fs::read(&file).with_context(name)?)?);
        figures.check().with_context(name)?;
        Ok(figures)
    });
    let written = tables(&loopback?, &link?, &args.note)?;
    let old = fs::read_to_string(PAGE).context(PAGE)?;
    fs::write(&page, replaced(&old, &written)?).with_context(|| page.display().to_string())?;
    println!("{}", page.display());
    Ok(())
}

/// Runs one bench against a temporary sshd, over `link` if there is one, and returns the JSON that it prints.
fn measure(program: &Path, args: &ArticlesArgs, link: Option<&Link>) -> Result<Vec<u8>> {
    let tools = std::env::temp_dir().join(format!("hakobu-articles.{}", std::process::id()));
    fs::create_dir_all(&tools)?;
    let sshd = Sshd::start(&SshdOptions {
        path_dirs: vec![tools.clone()],
        address: link.map_or_else(|| SshdOptions::default().address, |link| IpAddr::V4(link.far().address())),
        netns: link.map(|link| link.far().name().to_owned()),
        ..SshdOptions::default()
    })?;
    // The host logs in to this end as well (`--back`): over a link on a second server, on loopback on the same one.
    let back = link.map(|link| {
        let address = IpAddr::V4(link.near().address());
        Sshd::start(&SshdOptions {
            address,
            netns: Some(link.near().name().to_owned()),
            ..SshdOptions::default()
        })
    });
    let back = back.transpose()?;
    let config = back.as_ref().unwrap_or(&sshd).client_config();
    script(&tools.join("ssh"), &format!("exec /usr/bin/ssh -F {} \"$@\"", config.display()))?;
    script(&tools.join("scp"), &format!("exec /usr/bin/scp -S {} \"$@\"", tools.join("ssh").display()))?;
    let mut command = match link {
        Some(link) => link.near().command(program),
        None => Command::new(program),
    };
    let budget = args.time_budget.as_deref().unwrap_or(if args.trial { "1m" } else { "20m" });
    command.args(["bench", "throwaway", "--json", "--back", "throwaway", "--time-budget", budget]);
    if !args.trial {
        command.arg("--full");
    }
    let output = command.env("HAKOBU_SSH", sshd.ssh_command()).stderr(Stdio::inherit()).output()?;
    fs::remove_dir_all(&tools)?;
    ensure!(matches!(output.status.code(), Some(0 | 3)), "hakobu bench: {}", output.status);
    Ok(output.stdout)
}

fn script(path: &Path, line: &str) -> Result<()> {
    fs::write(path, format!("#!/bin/sh\n{line}\n"))?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

/// The JSON output of one bench.
struct Figures(Value);

impl Figures {
    fn rows(&self) -> &[Value] {
        self.0["rows"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// Checks that every successful row of hakobu used the agent, since that is what the page means by "hakobu".
    ///
    /// # Errors
    /// Returns an error if a row used another transport.
    fn check(&self) -> Result<()> {
        let is_other = |row: &&Value| {
            row["case"]["way"] == "hakobu" && row["failed"].is_null() && row["transport"] != "agent"
        };
        match self.rows().iter().find(is_other) {
            Some(row) => bail!("{}: it went by {}, and not by its agent", row["label"], row["transport"]),
            None => Ok(()),
        }
    }

    /// Returns the result of a line as a table cell, in MB/s.
    fn cell(&self, line: &BenchRow) -> String {
        let wanted = match line {
            BenchRow::Not => return "not run".to_owned(),
            BenchRow::Row(wanted) => wanted,
        };
        let rows = self.rows();
        let is_it = |row: &&Value| {
            serde_json::from_value::<BenchCase>(row["case"].clone()).is_ok_and(|case| case == *wanted)
        };
        match rows.iter().find(is_it) {
            Some(row) if !row["failed"].is_null() => "failed".to_owned(),
            Some(row) => row["bytes_per_second"]
                .as_f64()
                .map_or("too short".to_owned(), |rate| format!("{:.0}", rate / 1e6)),
            None => "–".to_owned(),
        }
    }
}

/// The row of `hakobu bench` that corresponds to a line of an article.
#[derive(Clone)]
enum BenchRow {
    /// The row with this case.
    Row(BenchCase),
    /// No row: bench runs one command at a time and does not use broken ciphers.
    Not,
}

/// The label of a line, the article's figure, and the row that corresponds to it.
type Line = (&'static str, &'static str, BenchRow);

fn tables(loopback: &Figures, link: &Figures, note: &str) -> Result<String> {
    let machine = &loopback.0["machines"][0];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let date = text(&loopback.0["ended_at"]).split('T').next().unwrap_or_default().to_owned();
    let rounds = [loopback, link].map(|figures| figures.0["rounds"].as_u64().unwrap_or(0));
    let mut page = format!(
        "Made on {date} by `cargo xtask articles` on {}, {} processors, {}, which are shared by both ends and the link; {note}. \
         Rounds: {} on loopback, {} over a link of 1 Gbit/s and 0.25 ms. All figures are MB/s; – is what there was no time or tool for. \
         Not run is what bench does not have: several commands at a time, and ciphers that are broken. The command writes the figures in full, with the processor time of every process and the command lines, to \
         `articles-loopback.json` and `articles-1gbit.json`.\n",
        text(&machine["processor"]),
        machine["processors"].as_u64().unwrap_or(0),
        text(&machine["kernel"]),
        rounds[0],
        rounds[1]
    );
    for (title, lines) in [
        ("Article 1: a disk over 25 Gbit/s, random data", first()),
        ("Article 2: scp between two clusters over 10 Gbit/s, who starts and whither", second()),
        ("Article 3: rsync", third()),
        ("Article 5: scp over 1 Gbit/s", fifth()),
    ] {
        let mut table = MarkdownTable::new(["way", "the article", "here, loopback", "here, 1 Gbit/s"]);
        for (label, article, run) in lines {
            table.push([label.to_owned(), article.to_owned(), loopback.cell(&run), link.cell(&run)]);
        }
        page.push_str(&format!("\n### {title}\n\n{table}"));
    }
    let mut why = Vec::new();
    for (name, figures) in [("loopback", loopback), ("1 Gbit/s", link)] {
        let found = figures.0["asymmetries"].as_array().map(Vec::as_slice).unwrap_or_default();
        why.extend(found.iter().take(5).map(|one| format!("- {name}: {}\n", text(&one["words"]))));
    }
    if !why.is_empty() {
        page.push_str(&format!("\n### What bench says of asymmetries\n\n{}", why.concat()));
    }
    Ok(page)
}

fn to(way: Method) -> BenchCase {
    BenchCase { ends: EndKinds::MemoryToNothing, ..BenchCase::plain(way, DataDirection::ToHost) }
}

fn cipher(way: Method, name: &str) -> BenchCase {
    BenchCase { cipher: Some(name.to_owned()), ..to(way) }
}

/// The lines of article 1. The article's rates are from disk to disk, those here from memory to nothing.
fn first() -> Vec<Line> {
    let blocks = |block_bytes| BenchRow::Row(BenchCase { block_bytes, ..to(Method::Dd) });
    let packed = |way, compressor| BenchRow::Row(BenchCase { compressor, ..to(way) });
    let with = |name| BenchRow::Row(cipher(Method::Dd, name));
    vec![
        ("dd, ssh, blocks of 512", "118", blocks(512)),
        ("4k", "363", blocks(4 << 10)),
        ("32k", "371", blocks(32 << 10)),
        ("64k", "385", blocks(64 << 10)),
        ("512k", "324", blocks(512 << 10)),
        ("4M", "330", blocks(4 << 20)),
        ("nc", "160", BenchRow::Row(to(Method::Nc))),
        ("gzip, ssh", "24", packed(Method::Dd, Compressor::Gzip)),
        ("gzip, nc", "28", packed(Method::Nc, Compressor::Gzip)),
        ("lzop, ssh", "160", packed(Method::Dd, Compressor::Lzop)),
        ("lzop, nc", "277", packed(Method::Nc, Compressor::Lzop)),
        ("pigz, ssh", "163", packed(Method::Dd, Compressor::Pigz)),
        ("pigz, nc", "397", packed(Method::Nc, Compressor::Pigz)),
        ("zstd, ssh", "", packed(Method::Dd, Compressor::Zstd)),
        ("aes128-ctr", "538", with("aes128-ctr")),
        ("aes192-ctr", "610", with("aes192-ctr")),
        ("aes256-ctr", "609", with("aes256-ctr")),
        ("aes128-gcm", "632", with("aes128-gcm@openssh.com")),
        ("aes256-gcm", "642", with("aes256-gcm@openssh.com")),
        ("chacha20-poly1305", "402", with("chacha20-poly1305@openssh.com")),
        ("mbuffer", "", BenchRow::Row(to(Method::Mbuffer))),
        ("**hakobu**", "", BenchRow::Row(to(Method::Hakobu))),
    ]
}

fn second() -> Vec<Line> {
    let case =
        |way, direction, starter| BenchRow::Row(BenchCase { starter, ..BenchCase::plain(way, direction) });
    let (to_host, from_host) = (DataDirection::ToHost, DataDirection::FromHost);
    vec![
        ("one scp, to the host, started here", "about 230", case(Method::Scp, to_host, Initiator::Here)),
        (
            "from the host, started here",
            "half, by one host's sshd",
            case(Method::Scp, from_host, Initiator::Here),
        ),
        ("to the host, started there", "", case(Method::Scp, to_host, Initiator::There)),
        ("from the host, started there", "", case(Method::Scp, from_host, Initiator::There)),
        ("12 scp at once", "about 1 260", BenchRow::Not),
        ("**hakobu**, to the host, started here", "", case(Method::Hakobu, to_host, Initiator::Here)),
        ("**hakobu**, from the host, started here", "", case(Method::Hakobu, from_host, Initiator::Here)),
        ("**hakobu**, to the host, started there", "", case(Method::Hakobu, to_host, Initiator::There)),
        ("**hakobu**, from the host, started there", "", case(Method::Hakobu, from_host, Initiator::There)),
    ]
}

fn third() -> Vec<Line> {
    let memory = |way| BenchRow::Row(BenchCase { ends: EndKinds::MemoryToMemory, ..to(way) });
    let disk = |way| BenchRow::Row(BenchCase { ends: EndKinds::DiskToDisk, ..to(way) });
    vec![
        ("one rsync (to a daemon there, over ssh here), memory", "16", memory(Method::Rsync)),
        ("the same, disk", "", disk(Method::Rsync)),
        ("parsyncfp over 48 connections", "146", BenchRow::Not),
        ("**hakobu**, memory", "", memory(Method::Hakobu)),
        ("**hakobu**, disk", "", disk(Method::Hakobu)),
    ]
}

fn fifth() -> Vec<Line> {
    let content = |content, compressor| BenchRow::Row(BenchCase { content, compressor, ..to(Method::Scp) });
    let with = |name| BenchRow::Row(cipher(Method::Scp, name));
    let hakobu = |content, compressor| BenchRow::Row(BenchCase { content, compressor, ..to(Method::Hakobu) });
    vec![
        ("scp, aes128-cbc", "36.6", BenchRow::Not),
        ("3des", "11.5", BenchRow::Not),
        ("blowfish", "41.7", BenchRow::Not),
        ("arcfour128, arcfour256", "83.3", BenchRow::Not),
        ("aes256-ctr", "25.9", with("aes256-ctr")),
        ("aes256-gcm", "", with("aes256-gcm@openssh.com")),
        ("chacha20-poly1305", "", with("chacha20-poly1305@openssh.com")),
        ("scp -C, text", "41 to 44", content(DataKind::Text, Compressor::Ssh)),
        ("scp, text", "35 to 78", content(DataKind::Text, Compressor::None)),
        ("scp -C, gzip'd", "2 to 8 times as slow", content(DataKind::Gzipped, Compressor::Ssh)),
        ("scp, gzip'd", "", content(DataKind::Gzipped, Compressor::None)),
        ("**hakobu**, text", "", hakobu(DataKind::Text, Compressor::None)),
        ("**hakobu** --compress none, text", "", hakobu(DataKind::Text, Compressor::Off)),
        ("**hakobu** --compress zstd, text", "", hakobu(DataKind::Text, Compressor::Zstd)),
        ("**hakobu**, gzip'd", "", hakobu(DataKind::Gzipped, Compressor::None)),
    ]
}

/// Returns the page with the tables between the markers replaced.
fn replaced(page: &str, tables: &str) -> Result<String> {
    let Some((before, rest)) = page.split_once(BEGIN) else { bail!("{PAGE} has no line {BEGIN}") };
    let Some((_, after)) = rest.split_once(END) else { bail!("{PAGE} has no line {END}") };
    Ok(format!("{before}{BEGIN}\n\n{tables}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use hakobu_measure::bench::plan::{PlanFacts, plan};
    use hakobu_measure::bench::tools::{MachineTools, Netcat, Tools, WANTED, offered_ciphers};

    use super::*;

    fn figures(rows: &Value) -> Figures {
        Figures(serde_json::json!({
            "ended_at": "2026-11-23T12:00:00Z", "rounds": 3, "rows": rows,
            "machines": [{ "processor": "P", "processors": 2, "kernel": "Linux" }],
            "asymmetries": [{ "words": "dd is slow" }],
        }))
    }

    #[test]
    fn figures_stand_beside_those_of_the_articles() {
        let case = serde_json::to_value(BenchCase { block_bytes: 512, ..to(Method::Dd) }).unwrap();
        let nc = serde_json::to_value(to(Method::Nc)).unwrap();
        let rows = serde_json::json!([
            { "case": case, "bytes_per_second": 123_400_000.0, "failed": null },
            { "case": nc, "bytes_per_second": null, "failed": "no" },
        ]);
        let page = tables(&figures(&rows), &figures(&serde_json::json!([])), "quiet").unwrap();
        let line = |begin: &str| page.lines().find(|line| line.starts_with(begin)).unwrap().replace(' ', "");
        assert_eq!(line("| dd, ssh, blocks of 512"), "|dd,ssh,blocksof512|118|123|–|");
        assert_eq!(line("| nc "), "|nc|160|failed|–|");
        assert_eq!(line("| 12 scp at once"), "|12scpatonce|about1260|notrun|notrun|");
        assert!(page.contains("Made on 2026-11-23") && page.contains("- loopback: dd is slow"));
    }

    #[test]
    fn every_line_is_a_row_that_a_full_bench_has_under_that_name() {
        let all = MachineTools {
            programs: WANTED.map(str::to_owned).to_vec(),
            netcat: Some(Netcat::OpenBsd),
            netcat_says: String::new(),
        };
        let offered = "aes128-ctr\naes192-ctr\naes256-ctr\naes128-gcm@openssh.com\naes256-gcm@openssh.com\n\
                       chacha20-poly1305@openssh.com\n3des-cbc\naes128-cbc\n";
        let tools = Tools { here: all.clone(), there: Some(all), ssh_ciphers: offered_ciphers(offered) };
        let (cases, _) = plan(&PlanFacts { has_host: true, full: true, tools, ..PlanFacts::default() });
        for (name, _, run) in [first(), second(), third(), fifth()].concat() {
            let BenchRow::Row(case) = run else { continue };
            assert!(cases.contains(&case), "{name}");
            let label = case.label();
            let of_hakobu = name.contains("hakobu");
            assert_eq!(of_hakobu, case.way == Method::Hakobu, "{name}");
            if let Some((_, compress)) = name.split_once("--compress ") {
                assert!(label.ends_with(compress.trim_end_matches(", text")), "{name}: {label}");
            }
            assert_eq!(name.ends_with("started there"), case.starter == Initiator::There, "{name}");
        }
    }

    #[test]
    fn hakobu_that_went_without_its_agent_is_no_figure() {
        let of = |transport: &str| {
            let case = serde_json::to_value(to(Method::Hakobu)).unwrap();
            let row = serde_json::json!({
                "case": case, "label": "hakobu", "transport": transport, "failed": null, "bytes_per_second": 1.0,
            });
            figures(&serde_json::json!([row])).check()
        };
        assert!(of("agent").is_ok());
        for other in ["sftp", "ssh", "agent, relayed"] {
            assert!(of(other).unwrap_err().to_string().contains(other));
        }
        let nc = serde_json::to_value(to(Method::Nc)).unwrap();
        let rows = serde_json::json!([{ "case": nc, "transport": null, "failed": null }]);
        assert!(figures(&rows).check().is_ok());
    }

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let page = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        assert_eq!(replaced(&page, "new").unwrap(), format!("a\n{BEGIN}\n\nnew\n{END}\nb\n"));
        assert!(replaced("a", "new").is_err());
    }
}
